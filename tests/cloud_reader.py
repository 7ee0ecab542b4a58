"""The tables of an inventory as openstacksdk's objects say them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Rows = Iterable[dict[str, Any]]
BEATS = ("updated_at",)
"""Columns of the tables of services that change while one looks."""


def read_tables(cloud: Any) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table that a small cloud has, without nulls."""
    return _without_nulls({**_nova(cloud), **_neutron(cloud), **_cinder(cloud), **_others(cloud)})


def read_nova(cloud: Any) -> dict[str, list[dict[str, Any]]]:
    """The rows of Nova's tables, without nulls."""
    return _without_nulls(_nova(cloud))


def _without_nulls(tables: dict[str, Rows]) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [{column: value for column, value in row.items() if value is not None} for row in rows]
        for name, rows in tables.items()
    }


def _nova(cloud: Any) -> dict[str, Rows]:
    compute = cloud.compute
    servers = list(compute.servers(details=True, all_projects=True))
    flavors = list(compute.flavors(details=True, is_public=None))
    zones, aggregates = list(compute.availability_zones(details=True)), list(compute.aggregates())
    groups = list(compute.server_groups(all_projects=True))
    of_server = _rows(
        servers, id="id", name="name", host_id="host_id", status="status", tenant_id="project_id", user_id="user_id",
        zone="availability_zone", host_name="hypervisor_hostname", created_at="created_at",
    )  # fmt: skip
    ids = {flavor.name: flavor.id for flavor in flavors}
    return {
        "nova:servers": (
            {
                **row,
                "image_id": server.image.id if server.image else None,
                "flavor_id": ids.get(server.flavor.original_name),
                "flavor_name": server.flavor.original_name,
                "vcpus": server.flavor.vcpus,
                "ram": server.flavor.ram,
                "disk": server.flavor.disk,
            }
            for row, server in zip(of_server, servers, strict=True)
        ),
        "nova:servers.addresses": (
            {
                "server_id": server.id,
                "network_name": network,
                "address": address["addr"],
                "version": address["version"],
                "mac_address": address["OS-EXT-IPS-MAC:mac_addr"],
                "address_type": address["OS-EXT-IPS:type"],
            }
            for server in servers
            for network, addresses in server.addresses.items()
            for address in addresses
        ),
        "nova:tags": _pairs(servers, "server_id", "tag", "tags"),
        "nova:flavors": _rows(
            flavors, id="id", name="name", vcpus="vcpus", ram="ram", disk="disk", ephemeral="ephemeral",
            rxtx_factor="rxtx_factor",
        ),
        "nova:flavors.extra_specs": _entries(flavors, "flavor_id", "extra_specs"),
        "nova:services": _rows(
            compute.services(), service_id="id", binary="binary", host="host", zone="availability_zone",
            status="status", state="state", disabled_reason="disabled_reason",
        ),
        "nova:hypervisors": _rows(
            compute.hypervisors(details=True), id="id", hypervisor_hostname="name", state="state", status="status"
        ),
        "nova:availability_zones": (
            {"zone": zone.name, "state": "available" if zone.state["available"] else "unavailable"} for zone in zones
        ),
        "nova:availability_zones.hosts": (
            {"zone": zone.name, "host": host, "service": service, "available": state["available"]}
            for zone in zones
            for host, services in (zone.hosts or {}).items()
            for service, state in services.items()
        ),
        "nova:aggregates": _rows(aggregates, id="id", uuid="uuid", name="name", zone="availability_zone"),
        "nova:aggregates.hosts": _pairs(aggregates, "aggregate_id", "host", "hosts"),
        "nova:aggregates.metadata": _entries(aggregates, "aggregate_id", "metadata"),
        "nova:server_groups": _rows(
            groups, id="id", name="name", project_id="project_id", user_id="user_id", policy="policy"
        ),
        "nova:server_groups.members": _pairs(groups, "group_id", "server_id", "member_ids"),
        "nova:quotas": _quotas(cloud, compute, "/os-quota-sets/{}/detail", "in_use", "2.87"),
    }  # fmt: skip


def _neutron(cloud: Any) -> dict[str, Rows]:
    network = cloud.network
    ports, subnets, routers = list(network.ports()), list(network.subnets()), list(network.routers())
    groups = list(network.address_groups())
    gateways = [(router.id, router.external_gateway_info) for router in routers if router.external_gateway_info]
    return {
        "neutronv2:networks": _rows(
            network.networks(), id="id", tenant_id="project_id", name="name", status="status",
            admin_state_up="is_admin_state_up", shared="is_shared",
        ),
        "neutronv2:ports": _rows(
            ports, id="id", tenant_id="project_id", name="name", network_id="network_id", mac_address="mac_address",
            admin_state_up="is_admin_state_up", status="status", device_id="device_id", device_owner="device_owner",
        ),
        "neutronv2:fixed_ips": ({"port_id": port.id, **address} for port in ports for address in port.fixed_ips),
        "neutronv2:security_group_port_bindings": _pairs(ports, "port_id", "security_group_id", "security_group_ids"),
        "neutronv2_qos:ports": _rows(ports, id="id"),
        "neutronv2_qos:qos_policy_port_bindings": (
            {"port_id": port.id, "qos_policy_id": port.qos_policy_id} for port in ports if port.qos_policy_id
        ),
        "neutronv2:subnets": _rows(
            subnets, id="id", tenant_id="project_id", name="name", network_id="network_id", ip_version="ip_version",
            cidr="cidr", gateway_ip="gateway_ip", enable_dhcp="is_dhcp_enabled", ipv6_ra_mode="ipv6_ra_mode",
            ipv6_address_mode="ipv6_address_mode",
        ),
        "neutronv2:allocation_pools": (
            {"subnet_id": subnet.id, **pool} for subnet in subnets for pool in subnet.allocation_pools
        ),
        "neutronv2:dns_nameservers": _pairs(subnets, "subnet_id", "dns_nameserver", "dns_nameservers"),
        "neutronv2:host_routes": (
            {"subnet_id": subnet.id, **route} for subnet in subnets for route in subnet.host_routes
        ),
        "neutronv2:routers": _rows(
            routers, id="id", tenant_id="project_id", status="status", admin_state_up="is_admin_state_up",
            name="name", distributed="is_distributed",
        ),
        "neutronv2:external_gateway_infos": (
            {"router_id": router, "network_id": gateway["network_id"], "enable_snat": gateway.get("enable_snat")}
            for router, gateway in gateways
        ),
        "neutronv2:external_fixed_ips": (
            {"router_id": router, **address}
            for router, gateway in gateways
            for address in gateway["external_fixed_ips"]
        ),
        "neutronv2:security_groups": _rows(
            network.security_groups(), id="id", tenant_id="project_id", name="name", description="description"
        ),
        "neutronv2:security_group_rules": _rows(
            network.security_group_rules(), security_group_id="security_group_id", id="id", tenant_id="project_id",
            remote_group_id="remote_group_id", direction="direction", ethertype="ether_type", protocol="protocol",
            port_range_min="port_range_min", port_range_max="port_range_max", remote_ip_prefix="remote_ip_prefix",
            remote_address_group_id="remote_address_group_id",
        ),
        "neutronv2:address_groups": _rows(
            groups, id="id", tenant_id="project_id", name="name", description="description"
        ),
        "neutronv2:address_groups.addresses": _pairs(groups, "address_group_id", "address", "addresses"),
        "neutronv2:floating_ips": _rows(
            network.ips(), id="id", router_id="router_id", tenant_id="project_id",
            floating_network_id="floating_network_id", fixed_ip_address="fixed_ip_address",
            floating_ip_address="floating_ip_address", port_id="port_id", status="status",
        ),
        "neutronv2:quotas": _quotas(cloud, network, "/quotas/{}/details.json", "used"),
    }  # fmt: skip


def _cinder(cloud: Any) -> dict[str, Rows]:
    storage = cloud.block_storage
    volumes, types = list(storage.volumes(all_projects=True)), list(storage.types(is_public=None))
    return {
        "cinder:volumes": _rows(
            volumes, id="id", size="size", user_id="user_id", status="status", description="description", name="name",
            bootable="is_bootable", created_at="created_at", volume_type="volume_type", encrypted="is_encrypted",
            availability_zone="availability_zone", replication_status="replication_status",
            multiattach="is_multiattach", snapshot_id="snapshot_id", source_volid="source_volume_id",
            consistencygroup_id="consistency_group_id", migration_status="migration_status", project_id="project_id",
            pool="host",
        ),
        "cinder:attachments": (
            {key: attachment[key] for key in ("volume_id", "server_id", "attachment_id", "host_name", "device")}
            for volume in volumes
            for attachment in volume.attachments
        ),
        "cinder:snapshots": _rows(
            storage.snapshots(all_projects=True), id="id", size="size", status="status", volume_id="volume_id",
            name="name", created_at="created_at",
        ),
        "cinder:types": _rows(types, id="id", name="name", is_public="is_public", description="description"),
        "cinder:types.extra_specs": _entries(types, "type_id", "extra_specs"),
        "cinder:services": _rows(
            storage.services(), status="status", binary="binary", zone="availability_zone", state="state", host="host",
            disabled_reason="disabled_reason",
        ),
        "cinder:pools": (
            {
                "name": pool.name,
                "backend": pool.capabilities["volume_backend_name"],
                **{f"{size}_gb": pool.capabilities[f"{size}_capacity_gb"]
                   for size in ("total", "free", "allocated", "provisioned")},
                "reserved_percentage": pool.capabilities["reserved_percentage"],
            }
            for pool in storage.backend_pools()
        ),
        "cinder:quotas": _quotas(cloud, storage, "/os-quota-sets/{}?usage=True", "in_use"),
    }  # fmt: skip


def _others(cloud: Any) -> dict[str, Rows]:
    identity, placement, orchestration = cloud.identity, cloud.placement, cloud.orchestration
    projects, users, roles = list(identity.projects()), list(identity.users()), list(identity.roles())
    groups, images = list(identity.groups()), list(cloud.image.images())
    providers = list(placement.resource_providers())
    stacks = orchestration.get("/stacks?show_nested=True").json()["stacks"]
    inventory = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")

    def of_providers(what: str) -> Iterator[tuple[str, Any]]:
        for provider in providers:
            yield provider.id, placement.get(f"/resource_providers/{provider.id}/{what}", microversion="1.36").json()

    def resources() -> Rows:
        for stack in stacks:
            for resource in orchestration.get(f"/stacks/{stack['stack_name']}/{stack['id']}/resources").json()[
                "resources"
            ]:
                yield {
                    "stack_id": stack["id"],
                    **{key: resource[key] for key in (
                        "physical_resource_id", "logical_resource_id", "resource_name", "resource_type",
                        "creation_time", "updated_time", "resource_status", "resource_status_reason")},
                }  # fmt: skip

    return {
        "keystonev3:projects": _rows(
            projects, enabled="is_enabled", description="description", name="name", domain_id="domain_id", id="id"
        ),
        "keystonev3:domains": _rows(
            identity.domains(), enabled="is_enabled", description="description", name="name", id="id"
        ),
        "keystonev3:users": _rows(
            users, id="id", name="name", enabled="is_enabled", default_project_id="default_project_id",
            domain_id="domain_id",
        ),
        "keystonev3:roles": _rows(roles, id="id", name="name"),
        "keystonev3:groups": _rows(groups, id="id", name="name", domain_id="domain_id"),
        "keystonev3:group_users": (
            {"group_id": group.id, "user_id": user.id} for group in groups for user in identity.group_users(group)
        ),
        "keystonev3:role_assignments": (
            {
                "role_id": assignment.role["id"],
                "user_id": (assignment.user or {}).get("id"),
                "group_id": (assignment.group or {}).get("id"),
                "project_id": assignment.scope.get("project", {}).get("id"),
                "domain_id": assignment.scope.get("domain", {}).get("id"),
                "system": assignment.scope.get("system", {}).get("all"),
                "inherited_to": assignment.scope.get("OS-INHERIT:inherited_to"),
            }
            for assignment in identity.role_assignments()
        ),
        "keystone:tenants": _rows(projects, enabled="is_enabled", description="description", name="name", id="id"),
        "keystone:users": _rows(
            users, username="name", name="name", enabled="is_enabled", tenantId="default_project_id", id="id",
            email="email",
        ),
        "keystone:roles": _rows(roles, id="id", name="name"),
        "glancev2:images": _rows(
            images, id="id", status="status", name="name", container_format="container_format",
            created_at="created_at", updated_at="updated_at", disk_format="disk_format", owner="owner_id",
            protected="is_protected", min_ram="min_ram", min_disk="min_disk", checksum="checksum", size="size",
            file="file", kernel_id="kernel_id", ramdisk_id="ramdisk_id", schema="schema", visibility="visibility",
        ),
        "glancev2:tags": _pairs(images, "image_id", "tag", "tags"),
        "nova_placement:resource_providers": _rows(
            providers, id="id", name="name", parent_id="parent_provider_id", root_id="root_provider_id"
        ),
        "nova_placement:inventories": (
            {"provider_id": provider, "resource_class": name, **{key: values[key] for key in inventory}}
            for provider, answer in of_providers("inventories")
            for name, values in answer["inventories"].items()
        ),
        "nova_placement:usages": (
            {"provider_id": provider, "resource_class": name, "used": used}
            for provider, answer in of_providers("usages")
            for name, used in answer["usages"].items()
        ),
        "nova_placement:traits": (
            {"provider_id": provider, "trait": trait}
            for provider, answer in of_providers("traits")
            for trait in answer["traits"]
        ),
        "nova_placement:aggregates": (
            {"provider_id": provider, "aggregate": aggregate}
            for provider, answer in of_providers("aggregates")
            for aggregate in answer["aggregates"]
        ),
        "heat:stacks": (
            {key: stack[key] for key in (
                "id", "stack_name", "description", "creation_time", "updated_time", "stack_status",
                "stack_status_reason", "stack_owner", "parent")}
            for stack in stacks
        ),
        "heat:stacks_links": (
            {"parent_key": stack["id"], "href": link["href"], "rel": link["rel"]}
            for stack in stacks
            for link in stack["links"]
        ),
        "heat:resources": resources(),
    }  # fmt: skip


def _rows(objects: Iterable[Any], **columns: str) -> Rows:
    for item in objects:
        yield {column: getattr(item, attribute) for column, attribute in columns.items()}


def _pairs(objects: Iterable[Any], owner: str, column: str, attribute: str) -> Rows:
    """A row for each member of a list."""
    for item in objects:
        for member in getattr(item, attribute) or ():
            yield {owner: item.id, column: member}


def _entries(objects: Iterable[Any], owner: str, attribute: str) -> Rows:
    """A row for each entry of a map."""
    for item in objects:
        for key, value in getattr(item, attribute).items():
            yield {owner: item.id, "key": key, "value": value}


def _quotas(cloud: Any, service: Any, path: str, used: str, microversion: str | None = None) -> Rows:
    for project in cloud.identity.projects():
        [quota] = service.get(path.format(project.id), microversion=microversion).json().values()
        for resource, numbers in quota.items():
            if resource != "id":
                limit = None if numbers["limit"] == -1 else numbers["limit"]
                in_use, reserved = numbers[used], numbers["reserved"]
                yield {
                    "project_id": project.id, "resource": resource, "limit": limit, "in_use": in_use,
                    "reserved": reserved,
                }  # fmt: skip
