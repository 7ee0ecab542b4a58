"""What gives each table of a cloud rows, for the inventory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

PORTS, ATTACHED = 10, 2
"""The ports made for each server, and those that it has: it takes Nova a while to plug one."""
WIDE = {"instances": 5000, "cores": 5000, "ram": 10_000_000, "server_groups": 100}
TEMPLATE = {"heat_template_version": "2018-08-31", "resources": {"box": {"type": "OS::Heat::RandomString"}}}


@contextmanager
def contents(cloud: Any, servers: int) -> Iterator[list[Any]]:
    """Put servers with ports, and one or a few of anything else, into the project of the cloud's user. They are deleted
    in the end."""
    with ExitStack() as stack:
        yield _fill(cloud, servers, stack.callback, f"inventory-{uuid4().hex[:8]}")


def _fill(cloud: Any, number: int, later: Callable[..., Any], name: str) -> list[Any]:
    compute, network, volumes, identity = cloud.compute, cloud.network, cloud.block_storage, cloud.identity
    project = cloud.current_project_id
    compute.update_quota_set(project, **WIDE)
    network.update_quota(project, ports=50_000, security_groups=100)
    image = next(iter(cloud.image.images(status="active")))
    cloud.image.add_tag(image, name)
    later(cloud.image.remove_tag, image, name)

    net = network.create_network(name=name)
    later(network.delete_network, net)
    subnet = network.create_subnet(
        name=name,
        network_id=net.id,
        ip_version=4,
        cidr="10.77.0.0/16",
        dns_nameservers=["192.0.2.53"],
        host_routes=[{"destination": "192.0.2.0/24", "nexthop": "10.77.0.9"}],
    )
    later(network.delete_subnet, subnet)
    outside = next(iter(network.networks(is_router_external=True)), None)
    router = network.create_router(name=name, external_gateway_info={"network_id": outside.id} if outside else None)
    later(network.delete_router, router)
    if outside:
        later(network.delete_ip, network.create_ip(floating_network_id=outside.id))
    addresses = network.create_address_group(name=name, addresses=["198.51.100.0/24"])
    later(network.delete_address_group, addresses)
    group = network.create_security_group(name=name)
    later(network.delete_security_group, group)
    rule = {"direction": "ingress", "ethertype": "IPv4", "protocol": "tcp", "port_range_min": 22, "port_range_max": 22}
    network.create_security_group_rule(security_group_id=group.id, remote_address_group_id=addresses.id, **rule)

    users = identity.create_group(name=name)
    later(identity.delete_group, users)
    user = identity.create_user(name=name)  # to leave a group revokes the tokens of its user
    later(identity.delete_user, user)
    identity.add_user_to_group(user, users)
    identity.assign_project_role_to_group(project, users, identity.find_role("member"))

    kind = volumes.create_type(name=name, extra_specs={"acme:colour": "blue"})
    later(volumes.delete_type, kind)
    volume = volumes.create_volume(name=name, size=1, volume_type=name)
    later(_delete_volume, cloud, volume)
    volumes.wait_for_status(volume, "available", wait=120)
    volumes.set_volume_bootable_status(volume, True)
    snapshot = volumes.create_snapshot(volume_id=volume.id, name=name)
    later(_delete_snapshot, cloud, snapshot)

    flavor = compute.create_flavor(name=name, vcpus=1, ram=64, disk=0)
    compute.create_flavor_extra_specs(flavor, {"hw:mem_page_size": "any"})
    later(compute.delete_flavor, flavor)
    aggregate = compute.create_aggregate(name=name, availability_zone=None)
    later(compute.delete_aggregate, aggregate)
    compute.set_aggregate_metadata(aggregate, {"colour": "blue"})
    host = next(service.host for service in compute.services() if service.binary == "nova-compute")
    compute.add_host_to_aggregate(aggregate, host)
    later(compute.remove_host_from_aggregate, aggregate, host)
    friends = compute.create_server_group(name=name, policy="soft-affinity")
    later(compute.delete_server_group, friends)
    stack = cloud.orchestration.create_stack(name=name, template=TEMPLATE)
    later(cloud.orchestration.delete_stack, stack)

    made: list[tuple[Any, list[Any]]] = []

    def create(at: int) -> Any:
        port = {"network_id": net.id, "name": f"{name}-{at}", "security_groups": [group.id]}
        ports = list(network.create_ports([port] * PORTS))
        more: dict[str, Any] = {"image_id": image.id}
        if at == 0:
            device = {"uuid": volume.id, "source_type": "volume", "destination_type": "volume", "boot_index": 0}
            more = {"block_device_mapping_v2": [device], "scheduler_hints": {"group": friends.id}}
        networks = [{"port": port.id} for port in ports[:ATTACHED]]
        server = compute.create_server(name=f"{name}-{at}", flavor_id=flavor.id, networks=networks, **more)
        made.append((server, ports))
        server = compute.wait_for_server(server, wait=900)
        compute.put(f"/servers/{server.id}/tags/blue", microversion="2.26")
        return server

    later(_at_once, partial(_delete_server, cloud), made)
    return _at_once(create, range(number))


def _at_once(do: Callable[[Any], Any], things: Iterable[Any]) -> list[Any]:
    with ThreadPoolExecutor(6) as pool:
        return list(pool.map(do, things))


def _delete_server(cloud: Any, made: tuple[Any, list[Any]]) -> None:
    server, ports = made
    cloud.compute.delete_server(server)
    cloud.compute.wait_for_delete(server, wait=300)
    for port in ports:
        cloud.network.delete_port(port)


def _delete_volume(cloud: Any, volume: Any) -> None:
    cloud.block_storage.wait_for_status(volume, "available", wait=120)
    cloud.block_storage.delete_volume(volume)
    cloud.block_storage.wait_for_delete(volume, wait=120)


def _delete_snapshot(cloud: Any, snapshot: Any) -> None:
    cloud.block_storage.delete_snapshot(snapshot)
    cloud.block_storage.wait_for_delete(snapshot, wait=120)
