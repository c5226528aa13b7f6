//! The corpus of hostile objects on the real control plane, once with each subject: both bring every object to the same end,
//! but for those that upstream leaves where they are.

use anyhow::{Result, ensure};
use pintle_tests::TestCluster;
use pintle_tests::hostile_objects::{UPSTREAM_LEAVES, corpus, no_faults, play};
use pintle_tests::scenarios::Subject;

#[tokio::test(flavor = "multi_thread")]
async fn every_hostile_object_ends_as_with_kube_controller_manager_and_none_is_a_fault() -> Result<()> {
    for subject in [Subject::KubeControllerManager, Subject::pintle()?] {
        let cluster = TestCluster::real().await?.with_nodes(|_| {}).await?;
        let running = subject.start(cluster.plane()?).await?;
        let mut entries = corpus(1);
        if matches!(subject, Subject::KubeControllerManager) {
            let n_all = entries.len();
            entries.retain(|entry| UPSTREAM_LEAVES.iter().all(|(what, _)| entry.what != *what));
            ensure!(
                entries.len() + UPSTREAM_LEAVES.len() == n_all,
                "an entry that upstream leaves is not in the corpus"
            );
        }
        let played = play(&cluster.client, &entries).await.map_err(|error| error.context(running.process().log_tail()));
        if matches!(subject, Subject::Pintle(_)) {
            no_faults(&running.client).await.map_err(|error| error.context(running.process().log_tail()))?;
        }
        played?.print(subject.name())?;
        running.stop().await;
        cluster.stop().await;
    }
    Ok(())
}
