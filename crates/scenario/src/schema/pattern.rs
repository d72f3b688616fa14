//! Regular expressions for decimal numbers between two bounds.
//!
//! JSON Schema compares numbers and not texts, and a quantity with a unit is a text. So that an editor can tell that
//! `2h` is too long, the bounds become a pattern: one for each unit. It uses nothing that only some dialects have.

/// Decimal texts of the numbers from `least` to `most`, both in units of 10^-`places`.
#[derive(Debug, Clone, Copy)]
struct Decimals {
    least: u128,
    most: u128,
    places: usize,
}

/// The pattern of a quantity: a number and one of `units`, together from `least` to `most` of the smallest unit. Numbers with
/// underscores are only held to their form. None of the texts may be all that is left: then the pattern matches nothing.
pub(super) fn quantity(units: &[(&str, u128)], least: u128, most: u128) -> String {
    let ranged = units.iter().filter_map(|(unit, factor)| {
        Some(format!("{} *{unit}", Decimals::of_unit(*factor, least, most)?.pattern()))
    });
    let names: Vec<_> = units.iter().map(|(unit, _)| *unit).collect();
    let underscored = format!("[0-9][0-9.]*_[0-9._]* *{}", any_of(names.into_iter().map(str::to_owned)));
    format!("^{}$", any_of(ranged.chain([underscored])))
}

/// `a`, or `(?:a|b)` for more than one.
fn any_of(parts: impl IntoIterator<Item = String>) -> String {
    let parts: Vec<_> = parts.into_iter().collect();
    if parts.len() == 1 { parts.concat() } else { format!("(?:{})", parts.join("|")) }
}

/// How often `prime` divides `number`.
fn power(mut number: u128, prime: u128) -> usize {
    let mut power = 0;
    while number != 0 && number.is_multiple_of(prime) {
        number /= prime;
        power += 1;
    }
    power
}

fn common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

fn ten_to(places: usize) -> u128 {
    10_u128.pow(u32::try_from(places).unwrap_or(u32::MAX))
}

impl Decimals {
    /// Numbers of a unit that is worth `factor`, with as many places as a whole number of the smallest unit can need; none
    /// when no number lies between the bounds.
    fn of_unit(factor: u128, least: u128, most: u128) -> Option<Self> {
        let places = power(factor, 2).max(power(factor, 5));
        let scale = ten_to(places);
        // One digit of the last place is worth factor / scale.
        let divisor = common_divisor(scale, factor);
        let (scale, factor) = (scale / divisor, factor / divisor);
        let range = Self {
            least: least.checked_mul(scale)?.div_ceil(factor),
            most: most.checked_mul(scale)? / factor,
            places,
        };
        (range.least <= range.most).then_some(range)
    }

    fn pattern(self) -> String {
        let scale = ten_to(self.places);
        let fraction = |n: u128| digits(n % scale, self.places);
        let (first, last) = (self.least / scale, self.most / scale);
        let (from, to) = (fraction(self.least), fraction(self.most));
        if first == last {
            return format!("0*{first}{}", point(Some(&from), Some(&to), self.places));
        }
        let mut parts = Vec::new();
        let mut whole = first..=last;
        if !is_all(&from, 0) {
            parts.push(format!("{first}{}", point(Some(&from), None, self.places)));
            whole = first + 1..=last;
        }
        if !is_all(&to, 9) {
            parts.push(format!("{last}{}", point(None, Some(&to), self.places)));
            whole = *whole.start()..=last - 1;
        }
        if !whole.is_empty() {
            parts.push(format!(
                "{}{}",
                integers(*whole.start(), *whole.end()),
                point(None, None, self.places)
            ));
        }
        format!("0*{}", any_of(parts))
    }
}

/// The last `count` digits of `number`.
fn digits(number: u128, count: usize) -> Vec<u8> {
    let text = format!("{number:0count$}");
    text.bytes().map(|digit| digit - b'0').skip(text.len() - count).collect()
}

fn is_all(digits: &[u8], digit: u8) -> bool {
    digits.iter().all(|own| *own == digit)
}

fn class(from: u8, to: u8) -> String {
    match (from, to) {
        _ if from == to => from.to_string(),
        (0, 9) => "[0-9]".to_owned(),
        _ => format!("[{from}-{to}]"),
    }
}

/// The decimal point and what may follow it; may be absent where zeros are enough.
fn point(from: Option<&[u8]>, to: Option<&[u8]>, places: usize) -> String {
    let from = from.filter(|from| !is_all(from, 0));
    let optional = if from.is_none() { "?" } else { "" };
    format!("(?:[.]{}){optional}", fraction(from, to, places))
}

/// Digits behind the point, from `from` and to `to` where they are given; a text that ends early ends in zeros.
fn fraction(from: Option<&[u8]>, to: Option<&[u8]>, places: usize) -> String {
    let from = from.filter(|from| !is_all(from, 0));
    let to = to.filter(|to| !is_all(to, 9));
    if places == 0 || (from.is_none() && to.is_some_and(|to| is_all(to, 0))) {
        return "0*".to_owned();
    }
    if from.is_none() && to.is_none() {
        return format!("[0-9]{{0,{places}}}0*");
    }
    let rest = |from: Option<&[u8]>, to: Option<&[u8]>| {
        fraction(from.map(|from| &from[1..]), to.map(|to| &to[1..]), places - 1)
    };
    let parts = by_first_digit(from, to, rest);
    // What ends here is zero from here on.
    if from.is_none() { format!("(?:{})?", parts.join("|")) } else { any_of(parts) }
}

/// The ways to begin: with the lower bound's digit, the upper bound's, or one between.
fn by_first_digit(
    from: Option<&[u8]>,
    to: Option<&[u8]>,
    rest: impl Fn(Option<&[u8]>, Option<&[u8]>) -> String,
) -> Vec<String> {
    let (mut low, mut high) = (from.map_or(0, |from| from[0]), to.map_or(9, |to| to[0]));
    if low == high {
        return vec![format!("{low}{}", rest(from, to))];
    }
    let mut parts = Vec::new();
    if from.is_some() {
        parts.push(format!("{low}{}", rest(from, None)));
        low += 1;
    }
    if to.is_some() {
        parts.push(format!("{high}{}", rest(None, to)));
        high -= 1;
    }
    if low <= high {
        parts.push(format!("{}{}", class(low, high), rest(None, None)));
    }
    parts
}

/// Whole numbers without leading zeros.
fn integers(least: u128, most: u128) -> String {
    let mut parts = Vec::new();
    if least == 0 {
        parts.push("0".to_owned());
    }
    let length = |number: u128| number.to_string().len();
    // Lengths of which every number belongs, as yet unwritten.
    let mut whole: Option<(usize, usize)> = None;
    let whole_part = |(from, to): (usize, usize)| match (from, to) {
        (1, 1) => "[1-9]".to_owned(),
        _ if from == to => format!("[1-9][0-9]{{{}}}", from - 1),
        _ => format!("[1-9][0-9]{{{},{}}}", from - 1, to - 1),
    };
    let least = least.max(1);
    for len in length(least)..=length(most) {
        let (lowest, highest) = (ten_to(len - 1), ten_to(len - 1) * 9 + (ten_to(len - 1) - 1));
        let (from, to) = (least.max(lowest), most.min(highest));
        if (from, to) == (lowest, highest) {
            whole = Some((whole.map_or(len, |(first, _)| first), len));
            continue;
        }
        parts.extend(whole.take().map(whole_part));
        if from <= to {
            parts.push(of_length(Some(&digits(from, len)), Some(&digits(to, len)), len));
        }
    }
    parts.extend(whole.map(whole_part));
    any_of(parts)
}

/// Digits of one length between two others.
fn of_length(from: Option<&[u8]>, to: Option<&[u8]>, len: usize) -> String {
    match (from, to) {
        _ if len == 0 => String::new(),
        (None, None) if len == 1 => "[0-9]".to_owned(),
        (None, None) => format!("[0-9]{{{len}}}"),
        _ => {
            let rest = |from: Option<&[u8]>, to: Option<&[u8]>| {
                of_length(from.map(|from| &from[1..]), to.map(|to| &to[1..]), len - 1)
            };
            any_of(by_first_digit(from, to, rest))
        }
    }
}
