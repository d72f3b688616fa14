//! A panic in one connection's task ends that connection, not the node.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Poll,
};

use super::connection::Ended;

/// Does the work of a connection; a panic becomes an ordinary end. What the work shares with others is changed in
/// single steps under locks, so nothing half done stays behind.
pub(super) async fn contain(work: impl Future<Output = Result<(), Ended>>) -> Result<(), Ended> {
    let mut work = Box::pin(work);
    std::future::poll_fn(move |context| {
        let poll = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        poll.unwrap_or_else(|panic| Poll::Ready(Err(Ended::Panic(text_of(panic.as_ref())))))
    })
    .await
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn fail_at(turn: usize) -> Result<(), Ended> {
        for now in 0..3 {
            assert_ne!(now, turn, "turn {turn}");
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_panic_is_an_end_with_its_text() {
        for turn in 0..3 {
            let ended = contain(fail_at(turn)).await;
            let Err(Ended::Panic(text)) = ended else { panic!("{ended:?}") };
            assert!(text.contains(&format!("turn {turn}")), "{text}");
        }
        let ended = contain(async { std::panic::panic_any(7_u8) }).await;
        assert!(matches!(ended, Err(Ended::Panic(text)) if text == "no text"));
        assert!(contain(fail_at(9)).await.is_ok());
    }
}
