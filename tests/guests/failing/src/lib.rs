//! Fails by what it reads; the ConfigMap of the key says how.

use failing_controller::bindings;

struct Failing;

bindings::export!(Failing with_types_in bindings);

impl bindings::Guest for Failing {
    fn reconcile(key: failing_controller::Key, lister: failing_controller::Lister) -> failing_controller::Answer {
        failing_controller::reconcile(key, lister, false)
    }
}
