//! Scenarios that use only the Kubernetes API, and therefore hold on any cluster. Each scenario
//! runs on the sandbox in virtual time and, with `hack/controlplane/cluster.sh` (`make test-real`),
//! on a real control plane in real time.

mod disrupting;
mod leading;
mod placing;
mod pools;
mod registering;
mod removing;
mod scenario_cluster;
