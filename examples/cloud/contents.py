"""The contents of a new cloud: users, hosts, flavors and an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import openstack

from examples.cloud.layout import FLAVORS, PASSWORD, POOLS, REGION, USERS, ZONES, Layout

ENDPOINTS = (
    ("glance", "image", ""),
    ("placement", "placement", ""),
    ("nova", "compute", "/v2.1"),
    ("neutron", "network", ""),
    ("cinder", "block-storage", "/v3"),
    ("heat", "orchestration", "/v1/%(project_id)s"),
    ("heat_cfn", "cloudformation", "/v1"),
)
"""The listener, the type of the service and the path of each endpoint."""
PEOPLE = {"demo": ("demo", ("member", "licence_user"))}
"""The project and the roles of users."""
SEATS = 4
"""Seats of the licence acme_db."""
POOL = 500
"""GiB of each of Cinder's pools that claims may use."""


class Contents:
    """Fills a cloud, as its admin."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._cloud: Any = openstack.connect(
            auth_url=layout.url("keystone", "/v3"),
            username="admin",
            password=PASSWORD,
            project_name="admin",
            user_domain_id="default",
            project_domain_id="default",
            region_name=REGION,
        )

    def fill_identity(self) -> None:
        """Make users, roles and endpoints."""
        identity = self._cloud.identity
        roles = {role.name: role for role in identity.roles()}
        for name in ("heat_stack_owner", "heat_stack_user", "licence_user"):
            roles[name] = identity.create_role(name=name)
        projects = {"admin": identity.find_project("admin")}
        for name in ("service", "demo"):
            projects[name] = identity.create_project(name=name, domain_id="default")

        def assign(user: Any, project: str, *names: str) -> None:
            for name in names:
                identity.assign_project_role_to_user(projects[project], user, roles[name])

        for name in USERS:
            assign(identity.create_user(name=name, password=PASSWORD), "service", "admin", "service")
        for name, (project, names) in PEOPLE.items():
            assign(identity.create_user(name=name, password=PASSWORD), project, *names)
        domain = identity.create_domain(name="heat")
        user = identity.create_user(name="heat_domain_admin", password=PASSWORD, domain_id=domain.id)
        identity.assign_domain_role_to_user(domain, user, roles["admin"])
        for listener, kind, path in ENDPOINTS:
            service = identity.create_service(name=listener, type=kind)
            for interface in ("public", "internal"):
                identity.create_endpoint(
                    service_id=service.id,
                    interface=interface,
                    url=self._layout.url(listener, path),
                    region_id=REGION,
                )

    def has_hosts(self) -> bool:
        """Whether all hosts report to Nova, and its scheduler knows them."""
        services = self._cloud.compute.services(binary="nova-compute")
        return {service.host for service in services if service.state == "up"} == set(self._layout.hosts)

    def fill(self) -> None:
        """Create everything else."""
        for name, (cpus, memory, disk) in FLAVORS.items():
            self._cloud.compute.create_flavor(name=name, vcpus=cpus, ram=memory, disk=disk)
        self._cloud.image.create_image("debian", data=b"no image", container_format="bare", disk_format="raw",
                                       visibility="public")  # fmt: skip
        self._make_network("public", "203.0.113.0/24", is_router_external=True, provider_network_type="flat",
                           provider_physical_network="public")  # fmt: skip
        self._make_network("private", "10.9.0.0/16", is_shared=True)
        self._make_zones()
        self._make_provider("licences", "CUSTOM_LICENSE_ACME_DB", SEATS)
        for pool, rack in POOLS.items():
            traits = [f"CUSTOM_RACK_{rack}", f"CUSTOM_ZONE_{ZONES[rack]}"]
            self._make_provider(f"cloud@{pool}#fake", "CUSTOM_GATE_DISK_GB", POOL, traits)

    def _make_network(self, name: str, cidr: str, **options: object) -> None:
        network = self._cloud.network.create_network(name=name, **options)
        self._cloud.network.create_subnet(name=name, network_id=network.id, ip_version=4, cidr=cidr)

    def _make_zones(self) -> None:
        """Make the zones of Nova's hosts: aggregates."""
        for zone in sorted(set(ZONES.values())):
            hosts = [host for host in self._layout.hosts if ZONES[self._layout.rack(host)] == zone]
            aggregate = self._cloud.compute.create_aggregate(name=zone.lower(), availability_zone=zone.lower())
            for host in hosts:
                self._cloud.compute.add_host_to_aggregate(aggregate, host)

    def _make_provider(self, name: str, resource_class: str, total: int, traits: Sequence[str] = ()) -> None:
        """Make a provider in Placement with an inventory of one class."""
        placement = self._cloud.placement
        placement.put(f"/resource_classes/{resource_class}", microversion="1.7")
        provider = placement.create_resource_provider(name=name)
        placement.create_resource_provider_inventory(provider, resource_class, total=total)
        for trait in traits:
            placement.put(f"/traits/{trait}", microversion="1.6")
        if traits:
            body = {"resource_provider_generation": 1, "traits": list(traits)}
            placement.put(f"/resource_providers/{provider.id}/traits", json=body, microversion="1.7")
