"""Holds a file that `millrace exec --print` wrote against the schema of its format, and prints it as JSON.

usage: validate.py compose|k8s FILE
"""

import json
import pathlib
import subprocess
import sys

import jsonschema
import yaml


def restricted(pod):
    """What the profile `restricted` of Kubernetes' pod security standards asks of a pod; it is not part of the schema."""
    spec = pod["spec"]
    outer = spec["securityContext"]
    assert outer["runAsNonRoot"] is True and outer.get("runAsUser") != 0
    assert outer["seccompProfile"]["type"] in ("RuntimeDefault", "Localhost")
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        assert not spec.get(key), key
    allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
    for volume in spec["volumes"]:
        assert set(volume) - {"name"} <= allowed, volume
    for container in spec["containers"]:
        inner = container["securityContext"]
        assert inner["allowPrivilegeEscalation"] is False and not inner.get("privileged")
        assert inner["capabilities"] == {"drop": ["ALL"]}
        assert not any("hostPort" in port for port in container.get("ports", []))


def main(kind, name):
    text = pathlib.Path(name).read_text()
    value = yaml.safe_load(text)
    if kind == "compose":
        import importlib.util

        package = importlib.util.find_spec("compose").submodule_search_locations[0]
        schema = json.loads((pathlib.Path(package) / "config" / "compose_spec.json").read_text())
        jsonschema.validate(value, schema, cls=jsonschema.Draft7Validator)
    else:
        tool = pathlib.Path(sys.executable).parent / "kubernetes-validate"
        subprocess.run([tool, "--strict", "--quiet", name], check=True, stdout=sys.stderr)
        restricted(value)
    print(json.dumps(value))


main(*sys.argv[1:])
