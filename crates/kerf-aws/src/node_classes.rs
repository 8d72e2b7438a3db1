//! Reads node classes and pools for launches and reports (spec 06 §8). They come from cluster
//! state; until that is complete, from the API server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::nodepool::{NodeClassReference, NodePool};
use kerf_operator::SharedCluster;
use kerf_operator::logs::ObjectKind;
use kerf_runtime::{ApiError, with_retries};
use kube::{Api, Client};

/// Largest number of decoded classes that are kept.
const DECODED_MAX: usize = 1_000;

/// Reason why a node class cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeClassReadError {
    /// The class does not exist.
    #[error("ec2nodeclasses.karpenter.k8s.aws {0:?} not found")]
    NotFound(String),
    /// The class is being deleted.
    #[error("ec2nodeclasses.karpenter.k8s.aws {0:?} is terminating, treating as not found")]
    Terminating(String),
    /// The class has fields that cannot be read.
    #[error("decoding ec2nodeclass {name:?}, {cause}")]
    Decode {
        /// Name of the class.
        name: String,
        /// The field and its problem.
        #[source]
        cause: serde_json::Error,
    },
    /// The API server did not answer.
    #[error("getting ec2nodeclass {name:?}, {cause}")]
    Api {
        /// Name of the class.
        name: String,
        /// The failure of the request.
        #[source]
        cause: ApiError,
    },
}

impl NodeClassReadError {
    /// Returns true if the class does not exist or is being deleted.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_) | Self::Terminating(_))
    }
}

/// Reads node classes and pools.
pub(crate) struct NodeClasses {
    client: Client,
    cluster: SharedCluster,
    /// Decoded classes by name, with the version that was decoded.
    decoded: Mutex<BTreeMap<String, (Version, Arc<EC2NodeClass>)>>,
}

/// UID and resource version of an object.
type Version = (Option<String>, Option<String>);

impl NodeClasses {
    pub(crate) fn new(client: Client, cluster: SharedCluster) -> Self {
        Self { client, cluster, decoded: Mutex::default() }
    }

    /// Returns a class that exists and is not being deleted.
    pub(crate) async fn get(&self, name: &str) -> Result<Arc<EC2NodeClass>, NodeClassReadError> {
        let class = self.find(name).await?.ok_or_else(|| NodeClassReadError::NotFound(name.to_owned()))?;
        if class.metadata.deletion_timestamp.is_some() {
            return Err(NodeClassReadError::Terminating(name.to_owned()));
        }
        Ok(class)
    }

    async fn find(&self, name: &str) -> Result<Option<Arc<EC2NodeClass>>, NodeClassReadError> {
        let reference = class_reference(name);
        let (class, is_listed) = {
            let cluster = self.cluster.lock();
            (cluster.node_class(&reference).cloned(), cluster.is_node_class_kind_listed(&reference))
        };
        let Some(class) = class else {
            if is_listed {
                return Ok(None);
            }
            let api: Api<EC2NodeClass> = Api::all(self.client.clone());
            let read = with_retries(|| api.get_opt(name)).await;
            return match read {
                Ok(class) => Ok(class.map(Arc::new)),
                Err(ApiError::NotFound) => Ok(None),
                Err(cause) => Err(NodeClassReadError::Api { name: name.to_owned(), cause }),
            };
        };
        let version = (class.metadata.uid.clone(), class.metadata.resource_version.clone());
        let mut decoded = self.decoded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, class)) = decoded.get(name)
            && *known == version
            && version.1.is_some()
        {
            return Ok(Some(class.clone()));
        }
        let class: EC2NodeClass =
            class.decode().map_err(|cause| NodeClassReadError::Decode { name: name.to_owned(), cause })?;
        let class = Arc::new(class);
        if decoded.len() >= DECODED_MAX {
            decoded.clear();
        }
        decoded.insert(name.to_owned(), (version, class.clone()));
        Ok(Some(class))
    }

    /// Returns a pool. Returns `None` if it does not exist.
    pub(crate) async fn pool(&self, name: &str) -> Result<Option<Arc<NodePool>>, ApiError> {
        let (pool, is_synced) = {
            let cluster = self.cluster.lock();
            (cluster.get::<NodePool>(name).cloned(), cluster.has_been_synced())
        };
        if pool.is_some() || is_synced || name.is_empty() {
            return Ok(pool);
        }
        let api: Api<NodePool> = Api::all(self.client.clone());
        match with_retries(|| api.get_opt(name)).await {
            Ok(pool) => Ok(pool.map(Arc::new)),
            Err(ApiError::NotFound) => Ok(None),
            Err(cause) => Err(cause),
        }
    }
}

/// Returns the reference by which NodePools and NodeClaims name a class.
pub(crate) fn class_reference(name: &str) -> NodeClassReference {
    let ObjectKind { group, kind } = ObjectKind::of::<EC2NodeClass>();
    NodeClassReference { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
}
