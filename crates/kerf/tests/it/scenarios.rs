//! What Kerf does, told through the Kubernetes API alone, and therefore true of any cluster. Each scenario is written once and runs on two grounds:
//! on the sandbox in virtual time, and, under `hack/controlplane/cluster.sh` (`make test-real`), on a real control plane in real time.

mod disrupting;
mod leading;
mod placing;
mod pools;
mod registering;
mod removing;
mod scenario_cluster;
