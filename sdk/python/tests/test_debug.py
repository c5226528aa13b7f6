"""A recorded case has the answer to each of its reads. A test of the host writes the file."""

import unittest
from pathlib import Path

from pintle import ApiError, Discovery, Key, Kind, Lister, Outcome, Query, RawPath, call, controller, live_list, live_object, review, sign_certificate, sign_jwt
from pintle.testing import debug_case

RECORDED = Path(__file__).parents[2] / "vectors" / "debug.json"
VALIDITY = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
NEEDS = [
    live_object("v1/Pod", "default", "web"),
    live_object("v1/Pod", "default", "web", subresource="scale"),
    live_list("v1/Pod", "default", "app=web", 5, field_selector="spec.nodeName=n1", detail="projection"),
    RawPath("/version"),
    Discovery(),
    review("authorization.k8s.io/v1/SubjectAccessReview", "", {"spec": {"user": "ann"}}),
    sign_jwt("signer", {"sub": "ann"}),
    sign_certificate("authority", "PEM", ["client auth"], *VALIDITY),
    call("desk", "look-up", {"name": "ann"}, timeout=2),
]


class Debug(unittest.TestCase):
    def test_each_read_has_the_recorded_answer(self) -> None:
        def reconcile(key: Key, lister: Lister) -> Outcome:
            self.assertEqual(key, Key("pods", Kind.of("v1/Pod"), "default", "web"))
            self.assertEqual((lister.now()[:4], lister.uptime(), lister.attempt()), ("2026", 1.5, 2))
            self.assertEqual((lister.state("seen"), lister.state("other"), lister.config()["size"]), ("yes", None, 3))
            (failure,) = lister.failures()
            self.assertEqual((failure.verb, failure.kind, failure.subresource, failure.code), ("patch", Kind.of("v1/Pod"), "status", 409))
            pod = lister.get("v1/Pod", "default", "web")
            assert pod is not None
            self.assertEqual(pod["spec"]["nodeName"], "n1")
            self.assertIsNone(lister.get("v1/Pod", "default", "gone"))
            self.assertIsNotNone(lister.by_uid("uid-web"))
            query = Query("default", "app=web", controller("r"), ("node", "n1"), True)
            lists = (lister.list("v1/Pod", query), lister.selecting("v1/Service", "default", {"app": "web"}), lister.dependents("r"))
            self.assertEqual([*map(len, lists), lister.count("v1/Pod")], [1, 1, 1, 1])
            self.assertEqual([one.plural for one in lister.resources_of("", "Pod")], ["pods"])
            self.assertGreater(len(lister.resources()), 1)
            answers = [lister.ask(need) for need in NEEDS]
            refusals = [answer.reason if isinstance(answer, ApiError) else "" for answer in answers]
            self.assertEqual(refusals, ["", "NotFound", "", "", "", "", "", "Expired", ""])
            return Outcome().requeue_after(7)

        outcome = debug_case(RECORDED, reconcile)
        self.assertEqual(outcome, Outcome().requeue_after(7))

    def test_a_read_that_is_not_recorded_says_what_to_do(self) -> None:
        def reconcile(_key: Key, lister: Lister) -> None:
            lister.dependents("other")

        with self.assertRaisesRegex(LookupError, "the case has no answer to .*'uid': 'other'}: export it again"):
            debug_case(RECORDED, reconcile)
