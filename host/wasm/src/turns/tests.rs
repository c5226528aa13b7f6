use std::pin::pin;

use futures::poll;
use tokio::runtime::Builder;

use super::*;

fn block_on(test: impl Future<Output = ()>) {
    Builder::new_current_thread().build().unwrap().block_on(test);
}

#[test]
fn a_call_that_is_given_up_while_it_waits_gives_its_place_to_the_next() {
    block_on(async {
        let turns = Turns::new(2, 10);
        let member = turns.member(&"a".into(), 4);
        let first = member.begin().await;
        let third = {
            let mut second = pin!(member.begin());
            assert!(poll!(&mut second).is_pending());
            let mut third = Box::pin(member.begin());
            assert!(poll!(&mut third).is_pending());
            third
        };
        drop(first);
        drop(third.await);
        assert!(turns.inner.lock().waiting.is_empty());
    });
}

#[test]
fn a_turn_that_comes_too_late_goes_on_to_the_next() {
    block_on(async {
        let turns = Turns::new(2, 10);
        let member = turns.member(&"a".into(), 4);
        let first = member.begin().await;
        let mut second = Box::pin(member.begin());
        assert!(poll!(&mut second).is_pending());
        let mut third = Box::pin(member.begin());
        assert!(poll!(&mut third).is_pending());
        // The second one is given the turn, and does not live to see it.
        drop(first);
        drop(second);
        drop(third.await);
    });
}

#[test]
fn waiting_for_a_turn_is_counted() {
    block_on(async {
        let turns = Turns::new(2, 10);
        let (a, b) = (turns.member(&"a".into(), 4), turns.member(&"b".into(), 4));
        let (slow, other) = (a.begin().await, b.begin().await);
        slow.clone().pass().await;
        assert_eq!(slow.waited(), Duration::ZERO);
        let mut waits = Box::pin(other.clone().pass());
        assert!(poll!(&mut waits).is_pending());
        drop(slow);
        waits.await;
        assert!(other.waited() > Duration::ZERO);
    });
}

#[test]
fn versions_of_a_plugin_share_its_turns() {
    block_on(async {
        let turns = Turns::new(2, 10);
        let (old, new) = (turns.member(&"a".into(), 4), turns.member(&"a".into(), 4));
        let call = old.begin().await;
        let mut waits = Box::pin(new.begin());
        assert!(poll!(&mut waits).is_pending());
        drop(call);
        drop(waits.await);
        drop(old);
        drop(new.begin().await);
        drop(new);
        assert!(turns.inner.lock().plugins.is_empty());
    });
}
