"""The manifests in deploy/kubernetes: valid by the schemas of Kubernetes, rendered by the real kustomize, and
in agreement with the programs. No cluster runs here: docs/kubernetes.md says what that leaves open."""
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import kubernetes_validate
import pytest
import yaml

from harness import ROOT, Worker, environment, free_port, program, run, wait_until
from health_port import Port
from secured import PASSWORDS, documented_roles

HERE = ROOT / "deploy/kubernetes"
PAGE = (ROOT / "docs/kubernetes.md").read_text()
OLDEST = "1.27"  # as the page says
OPERATORS = ("PodMonitor", "PrometheusRule")
KUBECTL = Path(sys.prefix) / "bin/kubectl"  # from requirements.txt


def written():
    """All objects as they lie there, by file."""
    return {path: yaml.safe_load(path.read_text()) for path in sorted(HERE.rglob("*.yaml")) if path.name != "kustomization.yaml"}


def render(folder):
    done = subprocess.run([KUBECTL, "kustomize", folder], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0 and not done.stderr, done
    return list(yaml.safe_load_all(done.stdout))


def of_kind(objects, kind):
    return {one["metadata"]["name"]: one for one in objects if one["kind"] == kind}


def pod(workload):
    return workload["spec"]["template"]["spec"]


def check_schema(one):
    for version in (OLDEST, kubernetes_validate.latest_version()):
        kubernetes_validate.validate(one, version, strict=True)


def check_restricted(spec):
    """What the Pod Security Standard `restricted` asks for, and a root file system that cannot be written to."""
    general, (container,) = spec["securityContext"], spec["containers"]
    assert general["runAsNonRoot"] and general["runAsUser"] == general["runAsGroup"] == general["fsGroup"] == 10001
    assert general["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert all({"persistentVolumeClaim", "secret"} & volume.keys() for volume in spec["volumes"])
    assert spec["automountServiceAccountToken"] is spec["enableServiceLinks"] is False


# --- as written ---


def test_each_file_is_in_a_kustomization():
    named = set()
    for path in HERE.rglob("kustomization.yaml"):
        content = yaml.safe_load(path.read_text())
        entries = {(path.parent / entry).resolve() for entry in content.get("resources", []) + content.get("components", [])}
        assert all(entry.exists() for entry in entries), path
        named |= {entry / "kustomization.yaml" if entry.is_dir() else entry for entry in entries}
    roots = {HERE / f"example/{name}/kustomization.yaml" for name in ("shared", "types", "two-sets", "two-sets/monitoring", "monitoring")}
    assert set(HERE.rglob("*.yaml")) - named == roots


@pytest.mark.parametrize("path", written(), ids=lambda path: path.stem)
def test_schema(path):
    one = written()[path]
    if one["kind"] in OPERATORS:  # not Kubernetes' own, so there is no schema
        with pytest.raises(kubernetes_validate.SchemaNotFoundError):
            check_schema(one)
    else:
        check_schema(one)


def test_schema_is_strict():
    one = written()[HERE / "type/deployment.yaml"]
    pod(one)["containers"][0]["livenessProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        check_schema(one)


def test_pods_are_restricted():
    workloads = [one for one in written().values() if one["kind"] in ("Deployment", "Job")]
    assert len(workloads) == 3
    for one in workloads:
        check_restricted(pod(one))


def test_ports_and_names_agree():
    objects = written()
    deployment = objects[HERE / "type/deployment.yaml"]
    (container,) = pod(deployment)["containers"]
    (port,) = container["ports"]
    (listen,) = [entry["value"] for entry in container["env"] if entry["name"] == "PAWL_LISTEN"]
    assert str(port["containerPort"]) == listen == deployment["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"]
    who = [container["livenessProbe"]["httpGet"], container["readinessProbe"]["httpGet"],
           objects[HERE / "monitoring/podmonitor.yaml"]["spec"]["podMetricsEndpoints"][0],
           objects[HERE / "monitoring/podmonitor-monitor.yaml"]["spec"]["podMetricsEndpoints"][0],
           *[one for each in pod(objects[HERE / "monitoring/monitor.yaml"])["containers"] for one in [each["livenessProbe"]["httpGet"]]],
           objects[HERE / "shared/network.yaml"]["spec"]["ingress"][0]["ports"][0]]
    assert {one["port"] for one in who} == {port["name"]}
    monitor = objects[HERE / "monitoring/monitor.yaml"]
    (container,) = pod(monitor)["containers"]
    assert {container["ports"][0]["containerPort"], *[int(entry["value"]) for entry in container["env"] if entry["name"] == "PAWL_LISTEN"],
            int(monitor["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"])} == {9465}  # as everywhere else
    claims = {volume["persistentVolumeClaim"]["claimName"] for volume in pod(deployment)["volumes"] if "persistentVolumeClaim" in volume}
    assert claims == {objects[HERE / "shared/claim.yaml"]["metadata"]["name"]}
    assert pod(deployment)["terminationGracePeriodSeconds"] > 8  # after which a worker gives up by itself
    for one in objects.values():
        for volume in pod(one)["volumes"] if one["kind"] in ("Deployment", "Job") else []:
            if "secret" in volume:
                assert f"kubectl -n pawl create secret generic {volume['secret']['secretName']} --from-file=uri" in PAGE


def test_no_option_bears_a_name_that_kubernetes_injects():
    """For a Service called pawl: PAWL_PORT, PAWL_PORT_9464_TCP, PAWL_SERVICE_HOST, …"""
    for name in ("pawl-worker", "pawl-setup", "pawl-enqueue", "pawl-status", "pawl-dump", "pawl-lock"):
        options = re.findall(r"--([a-z][a-z-]+)", run(name, "--help").stdout.decode())
        assert options and not [option for option in options if re.fullmatch("(port|service)(-.*)?", option)], name


# --- as rendered ---


def check_types(objects, *types):
    deployments, budgets = of_kind(objects, "Deployment"), of_kind(objects, "PodDisruptionBudget")
    assert set(deployments) == set(budgets) == {f"pawl-{name}" for name in types}
    for name, one in deployments.items():
        template = one["spec"]["template"]
        selector = one["spec"]["selector"]["matchLabels"]
        assert selector["app.kubernetes.io/instance"] == name.removeprefix("pawl-")
        assert selector == budgets[name]["spec"]["selector"]["matchLabels"]
        assert [rule["labelSelector"]["matchLabels"] for rule in template["spec"]["topologySpreadConstraints"]] == [selector]
        assert selector.items() <= template["metadata"]["labels"].items()
        (kind,) = [entry for entry in template["spec"]["containers"][0]["env"] if entry["name"] == "PAWL_TYPE"]
        assert kind["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['app.kubernetes.io/instance']"


def test_example():
    objects = render(HERE / "example/types") + render(HERE / "example/shared")
    for one in objects:
        check_schema(one)
        assert one["metadata"]["namespace"] == "pawl"
    check_types(objects, "t1", "t2")
    workloads = [*of_kind(objects, "Deployment").values(), *of_kind(objects, "Job").values()]
    assert {pod(one)["containers"][0]["image"] for one in workloads} == {"registry.example.com/pawl:0.1.0"}
    policy = of_kind(objects, "NetworkPolicy")["pawl"]["spec"]["podSelector"]["matchLabels"]
    assert all(policy.items() <= one["spec"]["template"]["metadata"]["labels"].items() for one in workloads)


def test_example_of_monitoring():
    """The monitor, with the image and in the namespace of the site; each PodMonitor finds the pods that it is for, and makes the job of the rules."""
    monitoring = render(HERE / "example/monitoring")
    assert all(one["metadata"]["namespace"] == "pawl" for one in monitoring)
    for one in monitoring:
        if one["kind"] not in OPERATORS:
            check_schema(one)
    (monitor,) = of_kind(monitoring, "Deployment").values()
    assert pod(monitor)["containers"][0]["image"] == "registry.example.com/pawl:0.1.0"
    deployments = [monitor, *of_kind(render(HERE / "example/types"), "Deployment").values()]
    found = {name: [one["metadata"]["name"] for one in deployments
                    if each["spec"]["selector"]["matchLabels"].items() <= one["spec"]["template"]["metadata"]["labels"].items()]
             for name, each in of_kind(monitoring, "PodMonitor").items()}
    assert found == {"pawl": ["pawl-t1", "pawl-t2"], "pawl-monitor": ["pawl-monitor"]}
    assert "jobLabel" not in str(of_kind(monitoring, "PodMonitor"))  # so the job is <namespace>/<name of the PodMonitor>
    assert of_kind(monitoring, "PrometheusRule")["pawl"]["spec"]["groups"]


def secrets(objects):
    """{Deployment: the secret of its volumes}"""
    return {name: volume["secret"] for name, each in of_kind(objects, "Deployment").items() for volume in pod(each)["volumes"] if "secret" in volume}


def test_example_of_two_sets():
    """As the example with one set, but for the Secret that t2 has the connection string from, and the label of its pods."""
    two, one = render(HERE / "example/two-sets"), render(HERE / "example/types")
    check_types(two, "t1", "t2")
    named = secrets(two)
    assert {name: secret["secretName"] for name, secret in named.items()} == {"pawl-t1": "pawl-worker", "pawl-t2": "pawl-worker-b"}
    assert f"kubectl -n pawl create secret generic {named['pawl-t2']['secretName']} --from-file=uri" in PAGE
    named["pawl-t2"]["secretName"] = "pawl-worker"
    assert of_kind(two, "Deployment")["pawl-t2"]["spec"]["template"]["metadata"]["labels"].pop("pawl-set") == "b"
    for each in two + one:
        check_schema(each)
        if each["kind"] == "Deployment":
            pod(each)["volumes"].sort(key=lambda volume: volume["name"])
    assert two == one


def selects(selector, labels):
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        one["operator"] == "In" and labels.get(one["key"]) in one["values"] for one in selector.get("matchExpressions", ()))


def relabelled(endpoint, namespace, labels):
    """The label `namespace` that Prometheus gives a pod: the operator's own, and then by the relabelings."""
    meta = {"__meta_kubernetes_namespace": namespace, **{"__meta_kubernetes_pod_label_" + re.sub(r"\W", "_", name): value for name, value in labels.items()}}
    for rule in endpoint["relabelings"]:
        assert rule["targetLabel"] == "namespace"
        found = re.fullmatch(rule["regex"], ";".join(meta.get(name, "") for name in rule["sourceLabels"]))
        namespace = found.expand(re.sub(r"\$(\d)", r"\\\1", rule["replacement"])) if found else namespace
    return namespace


def test_example_of_monitoring_two_sets():
    """As with one set, and a second monitor with a Secret of its own. The PodMonitors tell the sets apart, and no selector finds pods of another."""
    two, one = render(HERE / "example/two-sets/monitoring"), render(HERE / "example/monitoring")
    for each in two:
        assert each["metadata"]["namespace"] == "pawl"
        if each["kind"] not in OPERATORS:
            check_schema(each)
    assert {name: secret["secretName"] for name, secret in secrets(two).items()} == {"pawl-monitor": "pawl-monitor", "pawl-monitor-b": "pawl-monitor-b"}
    assert "kubectl -n pawl create secret generic pawl-monitor-b --from-file=uri" in PAGE
    deployments = {**of_kind(two, "Deployment"), **of_kind(render(HERE / "example/two-sets"), "Deployment")}
    check_restricted(pod(deployments["pawl-monitor-b"]))
    labels = {name: each["spec"]["template"]["metadata"]["labels"] for name, each in deployments.items()}
    for name, each in deployments.items():
        assert [other for other in labels if selects(each["spec"]["selector"], labels[other])] == [name]
    seen = {name: {pods: relabelled(each["spec"]["podMetricsEndpoints"][0], "pawl", labels[pods]) for pods in sorted(labels)
                   if selects(each["spec"]["selector"], labels[pods])} for name, each in of_kind(two, "PodMonitor").items()}
    assert seen == {"pawl": {"pawl-t1": "pawl", "pawl-t2": "pawl-b"}, "pawl-monitor": {"pawl-monitor": "pawl", "pawl-monitor-b": "pawl-b"}}
    for kind, name in (("PrometheusRule", "pawl"), ("Deployment", "pawl-monitor")):  # as with one set
        assert of_kind(two, kind)[name] == of_kind(one, kind)[name]


def test_page(tmp_path):
    """What the page tells to write: a third type with options of its own, one node, other places of MongoDB, secrets from files."""
    shutil.copytree(HERE, tmp_path, dirs_exist_ok=True)
    snippets = dict(re.findall(r"```yaml\n# ([^\n]*\.yaml)\n(.*?)```", PAGE, re.S))
    assert set(snippets) == {"types/t3/kustomization.yaml", "types/orders/kustomization.yaml", "types/kustomization.yaml", "shared/kustomization.yaml",
                             "adopt/kustomization.yaml"}
    for path, text in snippets.items():
        file = tmp_path / "example" / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    for name in ("uri", "ca.crt"):
        (tmp_path / "example/types" / name).write_text("x")
    types, shared = render(tmp_path / "example/types"), render(tmp_path / "example/shared")
    for one in types + shared:
        check_schema(one)
    check_types(types, "t1", "t2", "t3")
    third = of_kind(types, "Deployment")["pawl-t3"]
    assert {"name": "PAWL_BATCH_BYTES", "value": "16MiB"} in pod(third)["containers"][0]["env"] and third["spec"]["replicas"] == 3
    (orders,) = of_kind(render(tmp_path / "example/types/orders"), "Deployment").values()
    check_schema(orders)
    [pattern] = [one for one in pod(orders)["containers"][0]["env"] if one["name"] == "PAWL_TYPE"]
    assert pattern == {"name": "PAWL_TYPE", "value": "orders.*"}
    adopts = of_kind(render(tmp_path / "example/adopt"), "Job")["pawl-setup"]
    check_schema(adopts)
    check_restricted(pod(adopts))
    (container,) = pod(adopts)["containers"]
    assert {"name": "data", "mountPath": container["args"][container["args"].index("--dir") + 1]} in container["volumeMounts"]
    assert adopts["spec"]["backoffLimit"] == 0 and "PAWL_URI_FILE" in [entry["name"] for entry in container["env"]]
    (secret,) = of_kind(types, "Secret")
    assert secret.startswith("pawl-worker-")
    assert {volume["secret"]["secretName"] for one in of_kind(types, "Deployment").values() for volume in pod(one)["volumes"] if "secret" in volume} == {secret}
    assert of_kind(shared, "PersistentVolumeClaim")["pawl-data"]["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert of_kind(shared, "NetworkPolicy")["pawl"]["spec"]["egress"][0]["to"]


# --- as run ---


def get(port, path):
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return reply.status
    except HTTPError as error:
        return error.code
    except OSError:
        return None


def as_kubernetes_would(file, secrets, storage, port=0, type_name=None):
    """The environment of a manifest's container, its volumes being folders here."""
    (container,) = pod(written()[file])["containers"]
    env = {entry["name"]: entry.get("value", type_name) for entry in container["env"]}
    places = {"/etc/pawl": str(secrets), "/var/lib/pawl": str(storage)}
    assert {mount["mountPath"] for mount in container["volumeMounts"]} <= places.keys()
    for path, folder in places.items():
        env = {name: value.replace(path, folder) for name, value in env.items()}
    if "PAWL_LISTEN" in env:
        env["PAWL_LISTEN"] = f"127.0.0.1:{port}"
    return container["args"], env


def check_options(command, env):
    """All variables are options of the program, and are what counts."""
    printed = run(*command, "--print-config", env=env)
    lines = dict(re.findall(r"^([a-z-]+) = (.*)$", printed.stdout.decode(), re.M))
    assert printed.returncode == 0, printed
    for name in env:
        option = name.removeprefix("PAWL_").lower().replace("_", "-")
        assert name in lines.get(option, ""), f"{name}: {lines}"


def test_programs_run_so(secured, users, make_field, tmp_path):
    """The programs, by the variables of the manifests alone, as users with the roles that the manifests name, over TLS."""
    field = make_field(secured)
    for name, file in (("setup", "shared/setup.yaml"), ("worker", "type/deployment.yaml"), ("monitor", "monitoring/monitor.yaml")):
        (role,) = re.findall(r"role (pawl-\w+)", (HERE / file).read_text())
        users.add(f"k-{name}", documented_roles(field.name)[role.removeprefix("pawl-")], pwd=PASSWORDS["worker"])
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(secured.tls / "ca.crt", folder)
        (folder / "uri").write_text(re.sub(r"/\?(.*)&tlsCAFile=.*", rf"/{field.name}?\1&tlsCAFile={folder}/ca.crt", users.uri(f"k-{name}")))
    command, env = as_kubernetes_would(HERE / "shared/setup.yaml", tmp_path / "setup", field.dir)
    check_options(command, env)
    done = run(*command, env=env)
    assert done.returncode == 0, done

    port = free_port()
    command, env = as_kubernetes_would(HERE / "monitoring/monitor.yaml", tmp_path / "monitor", field.dir, port)
    check_options(command, env)
    monitor = subprocess.Popen([program(*command)], env=environment(**env), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: get(port, "/healthz") == 200, "a monitor that answers")
        wait_until(lambda: Port(port).metrics().get(("pawl_monitor_database_answers",)) == 1, lambda: Port(port).metrics())
    finally:
        monitor.terminate()
        monitor.wait(30)

    port = free_port()
    command, env = as_kubernetes_would(HERE / "type/deployment.yaml", tmp_path / "worker", field.dir, port, "t1")
    check_options(command, env)
    assert command == ["pawl-worker"]
    field.fill(50)
    worker = Worker([], tmp_path / "log", env, quick=False)
    field.workers.append(worker)
    (container,) = pod(written()[HERE / "type/deployment.yaml"])["containers"]
    for path in (container["livenessProbe"]["httpGet"]["path"], container["readinessProbe"]["httpGet"]["path"], "/metrics"):
        wait_until(lambda: get(port, path) == 200, lambda: f"200 of {path}; {worker}")
    field.wait_empty()
    status, seconds = worker.stop()
    assert status == 0 and seconds < 8, str(worker)
    field.compare()
