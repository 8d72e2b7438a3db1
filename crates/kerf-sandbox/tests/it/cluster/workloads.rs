//! StatefulSets, DaemonSets, Jobs, CronJobs, in virtual time.

use std::time::Duration;

use kerf_sandbox::{Delay, Timing};
use serde_json::json;

use super::{
    CRON_JOBS, DAEMON_SETS, JOBS, PODS, STATEFUL_SETS, advance_seconds, create, daemon_set, delete, job, list, patch,
    phases, read, start, stateful_set,
};

fn names(objects: &[serde_json::Value]) -> Vec<&str> {
    objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_is_created_in_order_and_updated_in_reverse() {
    let cluster = start(Timing { pod_start: Delay::fixed(Duration::from_secs(10)), ..Timing::INSTANT });
    cluster.add_nodes(2).unwrap();
    create(&cluster, STATEFUL_SETS, stateful_set("db", 3)).await;
    advance_seconds(15).await;
    assert_eq!(names(&list(&cluster, PODS).await), ["db-0", "db-1"], "one after the other");
    advance_seconds(30).await;
    assert_eq!(names(&list(&cluster, PODS).await), ["db-0", "db-1", "db-2"]);
    let set = read(&cluster, &format!("{STATEFUL_SETS}/db")).await.unwrap();
    assert_eq!(set["status"]["readyReplicas"], 3, "{}", set["status"]);
    assert_eq!(set["status"]["currentRevision"], set["status"]["updateRevision"]);
    let next = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}, "template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}});
    patch(&cluster, &format!("{STATEFUL_SETS}/db"), next).await;
    advance_seconds(60).await;
    let images: Vec<String> = list(&cluster, PODS)
        .await
        .iter()
        .map(|pod| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_string())
        .collect();
    assert_eq!(images, ["nginx:1", "nginx:2", "nginx:2"], "the partition is kept");
    delete(&cluster, &format!("{PODS}/db-0"), json!({})).await;
    advance_seconds(60).await;
    let pod = read(&cluster, &format!("{PODS}/db-0")).await.unwrap();
    assert_eq!(pod["spec"]["containers"][0]["image"], "nginx:1", "pods below the partition keep the old revision");
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_follows_the_nodes() {
    let cluster = start(Timing::INSTANT);
    cluster.add_nodes(2).unwrap();
    create(&cluster, DAEMON_SETS, daemon_set("agent")).await;
    advance_seconds(1).await;
    assert_eq!(phases(&cluster).await, "Running=2");
    let node = json!({
        "metadata": {"name": "late", "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    });
    create(&cluster, "/api/v1/nodes", node).await;
    advance_seconds(1).await;
    assert_eq!(phases(&cluster).await, "Running=3");
    let taint = json!({"spec": {"taints": [{"key": "team", "value": "a", "effect": "NoExecute"}]}});
    patch(&cluster, "/api/v1/nodes/late", taint).await;
    advance_seconds(1).await;
    let set = read(&cluster, &format!("{DAEMON_SETS}/agent")).await.unwrap();
    assert_eq!(set["status"]["desiredNumberScheduled"], 2, "{}", set["status"]);
    assert_eq!(phases(&cluster).await, "Running=2");
}

#[tokio::test(start_paused = true)]
async fn a_job_counts_its_pods_even_if_they_are_deleted() {
    let cluster = start(Timing::INSTANT);
    cluster.add_nodes(1).unwrap();
    let mut object = job("sums", 4, 2);
    object["spec"]["template"]["metadata"] = json!({"annotations": {"pod-complete.stage.kwok.x-k8s.io/delay": "30s"}});
    create(&cluster, JOBS, object).await;
    advance_seconds(40).await;
    let path = format!("{JOBS}/sums");
    assert_eq!(read(&cluster, &path).await.unwrap()["status"]["succeeded"], 2);
    for pod in list(&cluster, PODS).await {
        if pod["status"]["phase"] == "Succeeded" {
            delete(&cluster, &format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap()), json!({})).await;
        }
    }
    advance_seconds(40).await;
    let status = read(&cluster, &path).await.unwrap()["status"].clone();
    assert_eq!(status["succeeded"], 4, "{status}");
    assert_eq!(status["conditions"][1]["type"], "Complete", "{status}");
}

#[tokio::test(start_paused = true)]
async fn a_failing_job_stops_at_its_back_off_limit_and_is_deleted_after_its_ttl() {
    let cluster = start(Timing::INSTANT);
    cluster.add_nodes(1).unwrap();
    let mut object = job("broken", 1, 1);
    object["spec"]["backoffLimit"] = json!(2);
    object["spec"]["ttlSecondsAfterFinished"] = json!(100);
    object["spec"]["template"]["metadata"] = json!({"annotations": {"sandbox.kerf.sh/exit-code": "1"}});
    create(&cluster, JOBS, object).await;
    advance_seconds(5).await;
    assert_eq!(phases(&cluster).await, "Failed=1", "the second waits a little");
    advance_seconds(60).await;
    let status = read(&cluster, &format!("{JOBS}/broken")).await.unwrap()["status"].clone();
    assert_eq!(status["failed"], 3, "{status}");
    assert_eq!(status["conditions"][1]["reason"], "BackoffLimitExceeded", "{status}");
    advance_seconds(110).await;
    assert!(read(&cluster, &format!("{JOBS}/broken")).await.is_none(), "its time is over");
    assert_eq!(phases(&cluster).await, "", "and its pods went with it");
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_completes_every_index_once() {
    let cluster = start(Timing::INSTANT);
    cluster.add_nodes(1).unwrap();
    let mut object = job("parts", 5, 2);
    object["spec"]["completionMode"] = json!("Indexed");
    create(&cluster, JOBS, object).await;
    advance_seconds(5).await;
    let status = read(&cluster, &format!("{JOBS}/parts")).await.unwrap()["status"].clone();
    assert_eq!(status["completedIndexes"], "0-4", "{status}");
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_follows_its_schedule_and_keeps_a_short_history() {
    let cluster = start(Timing::INSTANT);
    cluster.add_nodes(1).unwrap();
    let cron = json!({
        "metadata": {"name": "tick"},
        "spec": {"schedule": "*/10 * * * *", "jobTemplate": {"spec": job("tick", 1, 1)["spec"]}},
    });
    create(&cluster, CRON_JOBS, cron).await;
    advance_seconds(3 * 3600 + 1).await;
    let jobs = list(&cluster, JOBS).await;
    assert_eq!(jobs.len(), 3, "{:?}", names(&jobs));
    let cron = read(&cluster, &format!("{CRON_JOBS}/tick")).await.unwrap();
    assert_eq!(cron["status"]["lastScheduleTime"], "2026-01-01T03:00:00Z");
    patch(&cluster, &format!("{CRON_JOBS}/tick"), json!({"spec": {"suspend": true}})).await;
    advance_seconds(3600).await;
    let cron = read(&cluster, &format!("{CRON_JOBS}/tick")).await.unwrap();
    assert_eq!(cron["status"]["lastScheduleTime"], "2026-01-01T03:00:00Z", "suspended");
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_starts_the_latest_of_many_missed_runs() {
    let cluster = start(Timing::INSTANT);
    cluster.add_nodes(1).unwrap();
    let cron = json!({
        "metadata": {"name": "tick"},
        "spec": {"schedule": "* * * * *", "suspend": true, "jobTemplate": {"spec": job("tick", 1, 1)["spec"]}},
    });
    create(&cluster, CRON_JOBS, cron).await;
    // 300 runs are missed: more than a controller that counts them one by one would consider.
    advance_seconds(5 * 3600 + 30).await;
    patch(&cluster, &format!("{CRON_JOBS}/tick"), json!({"spec": {"suspend": false}})).await;
    advance_seconds(1).await;
    let cron = read(&cluster, &format!("{CRON_JOBS}/tick")).await.unwrap();
    assert_eq!(cron["status"]["lastScheduleTime"], "2026-01-01T05:00:00Z");
    let jobs = list(&cluster, JOBS).await;
    assert_eq!(jobs.len(), 1, "{:?}", names(&jobs));
    let scheduled = &jobs[0]["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert_eq!(scheduled, "2026-01-01T05:00:00Z");
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_daemon_set_changes_when_its_first_pod_becomes_available() {
    let cluster = start(Timing::INSTANT);
    cluster.add_nodes(1).unwrap();
    create(&cluster, DAEMON_SETS, daemon_set("agent")).await;
    advance_seconds(50).await;
    let node = json!({
        "metadata": {"name": "node-2", "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    });
    create(&cluster, "/api/v1/nodes", node).await;
    advance_seconds(5).await;
    let available = async || {
        let set = read(&cluster, &format!("{DAEMON_SETS}/agent")).await.unwrap();
        set["status"]["numberAvailable"].as_i64()
    };
    assert_eq!(available().await, Some(2));
    // One pod has been ready for 55 seconds, the other for 5.
    patch(&cluster, &format!("{DAEMON_SETS}/agent"), json!({"spec": {"minReadySeconds": 60}})).await;
    advance_seconds(1).await;
    assert_eq!(available().await, Some(0));
    advance_seconds(9).await;
    assert_eq!(available().await, Some(1), "the pod on node-1 is available after 60 seconds");
    advance_seconds(50).await;
    assert_eq!(available().await, Some(2));
}
