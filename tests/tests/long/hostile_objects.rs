//! The corpus of hostile objects on the real control plane, once with each subject: both bring every object to the same end.

use anyhow::Result;
use pintle_tests::TestCluster;
use pintle_tests::hostile_objects::{corpus, no_faults, play};
use pintle_tests::scenarios::Subject;

#[tokio::test(flavor = "multi_thread")]
async fn every_hostile_object_ends_as_with_kube_controller_manager_and_none_is_a_fault() -> Result<()> {
    for subject in [Subject::KubeControllerManager, Subject::pintle()?] {
        let cluster = TestCluster::real().await?.with_nodes(|_| {}).await?;
        let running = subject.start(cluster.plane()?).await?;
        let played =
            play(&cluster.client, &corpus(1)).await.map_err(|error| error.context(running.process().log_tail()));
        if matches!(subject, Subject::Pintle(_)) {
            no_faults(&running.client).await?;
        }
        played?.print(subject.name())?;
        running.stop().await;
        cluster.stop().await;
    }
    Ok(())
}
