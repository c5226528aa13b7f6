use std::pin::pin;

use futures::poll;
use tokio::runtime::Builder;

use super::*;

fn block_on(test: impl Future<Output = ()>) {
    Builder::new_current_thread().build().unwrap().block_on(test);
}

/// With at most ten calls of ten bytes.
fn scheduler(n_processors: usize) -> Arc<CpuScheduler> {
    CpuScheduler::new(n_processors, 10, 100)
}

fn calls(n_calls: usize) -> Demand {
    Demand { n_calls, call_bytes: 10 }
}

#[test]
fn a_call_dropped_while_it_waits_leaves_its_place_to_the_next() {
    block_on(async {
        let scheduler = scheduler(2);
        let member = scheduler.member(&"a".into(), calls(4));
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
        assert!(scheduler.state.lock().waiting.is_empty());
    });
}

#[test]
fn the_slot_of_a_dropped_call_goes_to_the_next() {
    block_on(async {
        let scheduler = scheduler(2);
        let member = scheduler.member(&"a".into(), calls(4));
        let first = member.begin().await;
        let mut second = Box::pin(member.begin());
        assert!(poll!(&mut second).is_pending());
        let mut third = Box::pin(member.begin());
        assert!(poll!(&mut third).is_pending());
        // The second call gets the slot and is dropped before it can use it.
        drop(first);
        drop(second);
        drop(third.await);
    });
}

#[test]
fn waiting_for_a_slot_is_measured() {
    block_on(async {
        let scheduler = scheduler(2);
        let (a, b) = (scheduler.member(&"a".into(), calls(4)), scheduler.member(&"b".into(), calls(4)));
        let (slow, other) = (a.begin().await, b.begin().await);
        slow.clone().yield_slot().await;
        assert_eq!(slow.waited(), Duration::ZERO);
        let mut waits = Box::pin(other.clone().yield_slot());
        assert!(poll!(&mut waits).is_pending());
        drop(slow);
        waits.await;
        assert!(other.waited() > Duration::ZERO);
    });
}

#[test]
fn versions_of_a_plugin_share_its_slots() {
    block_on(async {
        let scheduler = scheduler(2);
        let (old, new) = (scheduler.member(&"a".into(), calls(4)), scheduler.member(&"a".into(), calls(4)));
        let call = old.begin().await;
        let mut waits = Box::pin(new.begin());
        assert!(poll!(&mut waits).is_pending());
        drop(call);
        drop(waits.await);
        drop(old);
        drop(new.begin().await);
        drop(new);
        assert!(scheduler.state.lock().plugins.is_empty());
    });
}

#[test]
fn the_version_with_the_most_memory_bounds_the_calls_of_all() {
    block_on(async {
        let scheduler = scheduler(8);
        let small = scheduler.member(&"a".into(), calls(4));
        let first = small.begin().await;
        let large = scheduler.member(&"a".into(), calls(1));
        let mut second = Box::pin(small.begin());
        assert!(poll!(&mut second).is_pending());
        drop(large);
        let second = second.await;
        drop((first, second));
    });
}

#[test]
fn a_call_waits_for_the_memory_that_its_largest_version_may_take() {
    block_on(async {
        let scheduler = scheduler(8);
        let (a, b) = (scheduler.member(&"a".into(), calls(4)), scheduler.member(&"b".into(), calls(4)));
        let large = scheduler.member(&"a".into(), Demand { n_calls: 4, call_bytes: 91 });
        let other = b.begin().await;
        let first = a.begin().await;
        let mut second = Box::pin(a.begin());
        assert!(poll!(&mut second).is_pending(), "the only call of a plugin begins, and no other one");
        drop(large);
        assert!(poll!(&mut second).is_pending(), "the first call may still take what it has reserved");
        drop(first);
        let second = second.await;
        drop((other, second));
    });
}
