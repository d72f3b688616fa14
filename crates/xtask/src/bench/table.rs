//! Markdown tables.

/// A table whose columns are as wide as their widest cell.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new<const N: usize>(head: [&str; N]) -> Self {
        Self { rows: vec![head.map(str::to_owned).to_vec()] }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(super) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0).max(3)).collect();
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let empty = String::new();
            let cells = widths.iter().enumerate().map(|(column, width)| {
                let cell = row.get(column).unwrap_or(&empty);
                format!(" {cell:<width$} |")
            });
            text.push_str(&format!("|{}\n", cells.collect::<String>()));
            if number == 0 {
                let rules = widths.iter().map(|width| format!("{}|", "-".repeat(width + 2)));
                text.push_str(&format!("|{}\n", rules.collect::<String>()));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["a", "rate"]);
        table.row(["12345".to_owned(), "1".to_owned()]);
        table.row(["1".to_owned()]);
        let expected = "| a     | rate |\n|-------|------|\n| 12345 | 1    |\n| 1     |      |\n";
        assert_eq!(table.text(), expected);
    }
}
