//! Every form of `kubectl create`: each object is created, shown, described and deleted. kubectl
//! sends most of these bodies as protobuf.

use std::collections::BTreeSet;

use crate::script::TestCluster;

/// One form of `kubectl create`. Words in single quotes are one argument.
struct CreateForm {
    /// The arguments after `kubectl create`.
    arguments: &'static str,
    /// The object as `kubectl get` names it: `kind name`.
    object: &'static str,
    /// Lines that the object's YAML has.
    yaml: &'static [&'static str],
}

const fn form(arguments: &'static str, object: &'static str, yaml: &'static [&'static str]) -> CreateForm {
    CreateForm { arguments, object, yaml }
}

const FORMS: &[CreateForm] = &[
    form("namespace shop", "namespace shop", &["phase: Active"]),
    form("serviceaccount robot", "serviceaccount robot", &["name: robot"]),
    form(
        "configmap settings --from-literal=color=blue --from-literal=empty=",
        "configmap settings",
        &["color: blue", "empty: \"\""],
    ),
    form("configmap binary --from-file=random.bin", "configmap binary", &["binaryData:", "random.bin: /wD+"]),
    form(
        "secret generic password --from-literal=user=me --type=example.com/login",
        "secret password",
        &["user: bWU=", "type: example.com/login"],
    ),
    form(
        "secret tls certificate --cert=tls.crt --key=tls.key",
        "secret certificate",
        &["tls.crt:", "tls.key:", "type: kubernetes.io/tls"],
    ),
    form(
        "secret docker-registry registry --docker-server=r.example.com --docker-username=u --docker-password=p",
        "secret registry",
        &[".dockerconfigjson:", "type: kubernetes.io/dockerconfigjson"],
    ),
    form(
        "quota small --hard=cpu=1,memory=1G,pods=2 --scopes=BestEffort",
        "quota small",
        &["cpu: \"1\"", "memory: 1G", "- BestEffort"],
    ),
    form(
        "role reader --verb=get,list --resource=pods,pods/status --resource-name=web",
        "role reader",
        &["- pods", "- pods/status", "- web", "- list"],
    ),
    form(
        "clusterrole scaler --verb=get --resource=deployments.apps/scale",
        "clusterrole scaler",
        &["- apps", "- deployments/scale"],
    ),
    form(
        "clusterrole logs --verb=get --non-resource-url=/logs/*",
        "clusterrole logs",
        &["nonResourceURLs:", "- /logs/*"],
    ),
    form(
        "clusterrole monitoring --aggregation-rule=monitoring=true",
        "clusterrole monitoring",
        &["clusterRoleSelectors:", "monitoring: \"true\""],
    ),
    form(
        "rolebinding reads --role=reader --user=ann --group=dev --serviceaccount=default:robot",
        "rolebinding reads",
        &["kind: Role", "name: ann", "name: dev", "kind: ServiceAccount"],
    ),
    form(
        "clusterrolebinding scales --clusterrole=scaler --serviceaccount=default:robot",
        "clusterrolebinding scales",
        &["kind: ClusterRole", "name: scaler", "namespace: default"],
    ),
    form("service clusterip web --tcp=80:8080", "service web", &["targetPort: 8080", "type: ClusterIP", "app: web"]),
    form("service clusterip headless --clusterip=None", "service headless", &["clusterIP: None"]),
    form("service externalname db --external-name=db.example.com", "service db", &["externalName: db.example.com"]),
    form("service loadbalancer front --tcp=80:http", "service front", &["targetPort: http", "type: LoadBalancer"]),
    form(
        "service nodeport node-web --tcp=80 --node-port=30080",
        "service node-web",
        &["nodePort: 30080", "targetPort: 80"],
    ),
    form(
        "deployment web --image=nginx --replicas=2 --port=80",
        "deployment web",
        &["replicas: 2", "containerPort: 80"],
    ),
    form("job once --image=busybox -- date", "job once", &["- date", "image: busybox"]),
    form("cronjob nightly --image=busybox '--schedule=0 3 * * *' -- date", "cronjob nightly", &["schedule: 0 3 * * *"]),
    form("job by-hand --from=cronjob/nightly", "job by-hand", &["cronjob.kubernetes.io/instantiate: manual", "- date"]),
    form(
        "job report --from=cronjob/full",
        "job report",
        &["key: password", "secretName: certificate", "type: RuntimeDefault", "initialDelaySeconds: 5"],
    ),
    form(
        "ingress site --class=nginx --rule=a.example.com/x*=web:8080,tls=certificate --default-backend=web:http --annotation=a=b",
        "ingress site",
        &["pathType: Prefix", "number: 8080", "secretName: certificate", "ingressClassName: nginx", "a: b"],
    ),
    form(
        "poddisruptionbudget careful --selector=app=web --min-available=1",
        "poddisruptionbudget careful",
        &["minAvailable: 1"],
    ),
    form(
        "pdb percent --selector=app=web --max-unavailable=30%",
        "poddisruptionbudget percent",
        &["maxUnavailable: 30%"],
    ),
    form(
        "priorityclass urgent --value=1000 --description=first --preemption-policy=Never",
        "priorityclass urgent",
        &["value: 1000", "description: first", "preemptionPolicy: Never"],
    ),
];

/// A cron job with fields of many parts of the pod spec, for `create job --from`.
const FULL_CRON_JOB: &str = "
apiVersion: batch/v1
kind: CronJob
metadata: {name: full}
spec:
  schedule: '0 3 * * *'
  suspend: true
  jobTemplate:
    spec:
      backoffLimit: 0
      template:
        spec:
          restartPolicy: Never
          securityContext: {runAsUser: 0, fsGroup: 7, supplementalGroups: [1, 2], seccompProfile: {type: RuntimeDefault}}
          tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 0}]
          topologySpreadConstraints:
          - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {a: b}}}
          affinity:
            nodeAffinity:
              preferredDuringSchedulingIgnoredDuringExecution:
              - {weight: 5, preference: {matchExpressions: [{key: a, operator: In, values: [b]}]}}
            podAntiAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
              - {topologyKey: zone, labelSelector: {matchExpressions: [{key: a, operator: Exists}]}}
          containers:
          - name: c
            image: busybox
            command: [date]
            env:
            - {name: PASSWORD, valueFrom: {secretKeyRef: {name: password, key: password, optional: true}}}
            - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
            envFrom: [{configMapRef: {name: settings, optional: true}}]
            resources: {requests: {cpu: 100m}, limits: {memory: 1Gi}}
            livenessProbe: {httpGet: {path: /healthz, port: http}, initialDelaySeconds: 5}
            lifecycle: {preStop: {sleep: {seconds: 3}}}
            securityContext: {privileged: false, capabilities: {drop: [ALL]}}
            volumeMounts: [{name: certificate, mountPath: /c, readOnly: true}, {name: scratch, mountPath: /s}]
          volumes:
          - {name: certificate, secret: {secretName: certificate, items: [{key: tls.crt, path: crt, mode: 256}]}}
          - {name: scratch, emptyDir: {sizeLimit: 1Gi}}
          - name: all
            projected:
              sources: [{configMap: {name: settings, optional: true}}, {serviceAccountToken: {path: t, expirationSeconds: 600}}]
          - name: data
            ephemeral:
              volumeClaimTemplate:
                spec: {accessModes: [ReadWriteOnce], storageClassName: '', resources: {requests: {storage: 1Gi}}}
";

/// Writes the files that the forms read.
fn write_files(cluster: &TestCluster) {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate =
        rcgen::CertificateParams::new(vec!["a.example.com".to_owned()]).unwrap().self_signed(&key).unwrap();
    cluster.write_file("tls.crt", certificate.pem().as_bytes());
    cluster.write_file("tls.key", key.serialize_pem().as_bytes());
    cluster.write_file("random.bin", &[0xff, 0x00, 0xfe]);
    cluster.write_file("full.yaml", FULL_CRON_JOB.as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_form_of_kubectl_create_works() {
    let cluster = TestCluster::start().await;
    write_files(&cluster);
    let succeed = async |line: &str| {
        let (succeeded, text) = cluster.run_at_home(line).await;
        assert!(succeeded, "{line}\n{text}");
        text
    };
    succeed("kubectl create -f full.yaml").await;
    for CreateForm { arguments, object, yaml } in FORMS {
        let text = succeed(&format!("kubectl create {arguments}")).await;
        let name = object.rsplit(' ').next().unwrap_or_default();
        assert!(text.contains(&format!("/{name} created")), "{arguments}: {text}");
        assert!(succeed(&format!("kubectl get {object}")).await.contains(name), "{arguments}");
        assert!(succeed(&format!("kubectl describe {object}")).await.contains(name), "{arguments}");
        let shown = succeed(&format!("kubectl get {object} -o yaml")).await;
        for line in *yaml {
            assert!(shown.contains(line), "{arguments}: no {line:?} in\n{shown}");
        }
    }
    let job = succeed("kubectl get job report -o jsonpath={.spec.template.spec}").await;
    let cron_job = succeed("kubectl get cronjob full -o jsonpath={.spec.jobTemplate.spec.template.spec}").await;
    let without_defaults = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
    assert_eq!(without_defaults(&job), without_defaults(&cron_job), "the job has the whole pod spec of the cron job");
    for CreateForm { object, .. } in FORMS.iter().rev() {
        let text = succeed(&format!("kubectl delete {object} --wait=false")).await;
        assert!(text.contains("deleted"), "{object}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_forms_are_those_of_kubectl() {
    let cluster = TestCluster::start().await;
    let subcommands = async |command: &str| -> BTreeSet<String> {
        let (succeeded, help) = cluster.run_at_home(&format!("kubectl {command} --help")).await;
        assert!(succeeded, "{help}");
        let commands = help.lines().skip_while(|line| !line.starts_with("Available Commands:")).skip(1);
        let commands = commands.take_while(|line| !line.trim().is_empty());
        commands.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
    };
    let tested = |depth: usize| -> BTreeSet<&str> {
        let words = FORMS.iter().filter_map(|form| form.arguments.split_whitespace().nth(depth));
        words.map(|word| if word == "pdb" { "poddisruptionbudget" } else { word }).collect()
    };
    let mut known = subcommands("create").await;
    assert!(known.remove("token"), "the test below creates a token");
    assert_eq!(known.iter().map(String::as_str).collect::<BTreeSet<_>>(), tested(0));
    for family in ["secret", "service"] {
        for name in subcommands(&format!("create {family}")).await {
            assert!(tested(1).contains(name.as_str()), "create {family} {name} has no test");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_created_token_is_accepted_until_its_service_account_is_deleted() {
    let cluster = TestCluster::start().await;
    let run = async |line: &str| cluster.run_at_home(line).await;
    assert!(run("kubectl create serviceaccount robot").await.0);
    let (succeeded, token) = run("kubectl create token robot --duration=10m").await;
    assert!(succeeded, "{token}");
    let token = token.trim();
    assert_eq!(token.split('.').count(), 3, "{token}");
    let with_token = format!("kubectl --kubeconfig=no-user --token={token} get namespaces -o name");
    cluster.write_file("no-user", cluster.kubeconfig_without_user().as_bytes());
    let (succeeded, text) = run(&with_token).await;
    assert!(succeeded && text.contains("namespace/default"), "{text}");

    let (succeeded, other) = run("kubectl create token robot --audience=other").await;
    assert!(succeeded, "{other}");
    let (succeeded, text) = run(&with_token.replace(token, other.trim())).await;
    assert!(!succeeded && text.contains("Unauthorized"), "a token for another audience: {text}");

    for (line, expected) in [
        ("kubectl create token robot --duration=1m", "may not specify a duration less than 10 minutes"),
        ("kubectl create token nobody", "serviceaccounts \"nobody\" not found"),
        ("kubectl create token robot --bound-object-kind=Secret --bound-object-name=x", "secrets \"x\" not found"),
    ] {
        let (succeeded, text) = run(line).await;
        assert!(!succeeded && text.contains(expected), "{line}: {text}");
    }
    assert!(run("kubectl delete serviceaccount robot").await.0);
    let (succeeded, text) = run(&with_token).await;
    assert!(!succeeded && text.contains("Unauthorized"), "{text}");
}
