"""What `plait gen compose` puts together: text with places to fill in, as an operator reads it."""

from __future__ import annotations

from typing import Final

HEADER: Final = """# Written by `plait gen compose`.
#   docker compose up -d                            the overlay and its key server
#   docker compose --profile examples up -d         with publishers and subscribers
#   docker compose --profile monitoring up -d       with Prometheus (:9090) and Grafana (:3000)
#   docker compose --profile analytics up -d        with Spark over what the brokers record
#   docker compose exec {first} plait ls brokers    look at it
# Secrets are drawn on the first start, into the volume `secrets`. Ports are published to this machine alone, unless
# PLAIT_BIND=0.0.0.0 says otherwise.
x-image: &image
  image: ${{PLAIT_IMAGE:-plait-broker:0.1.0}}
  build: {{context: .., dockerfile: docker/Dockerfile, target: broker}}
  read_only: true
  tmpfs: ["/tmp:size=32m"]
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  restart: unless-stopped
  stop_grace_period: 30s
  logging: {{driver: json-file, options: {{max-size: 10m, max-file: "3"}}}}

x-broker: &broker
  <<: *image
  command: [broker]
  depends_on:
    init: {{condition: service_completed_successfully}}

x-settings: &settings
  PLAIT_BROKER__LISTEN: 0.0.0.0:4680
  PLAIT_BROKER__HTTP: 0.0.0.0:4681
  PLAIT_BROKER__DATA: /data
  PLAIT_BROKER__OVERLAY__JOIN_S: 30
  PLAIT_BROKER__OVERLAY__SECRET_FILE: /run/plait/overlay-secret
  PLAIT_BROKER__ACCESS__TOKEN_FILE: /run/plait/token
  PLAIT_BROKER__ACCESS__HTTP_TOKEN_FILE: /run/plait/http-token
  PLAIT_TOKEN_FILE: /run/plait/token

services:
  init:
    <<: *image
    entrypoint: [sh, -euc]
    command:
      - |
        plait gen secrets /run/plait
        [ -f /keys/vault.json ] || plait keys init /keys --schema /etc/plait/schema.json --passphrase-file /run/plait/keys-passphrase
    restart: "no"
    healthcheck: {{disable: true}}
    network_mode: none
    volumes: ["secrets:/run/plait", "keys:/keys", "./keys:/etc/plait:ro"]

"""

BROKER: Final = """\
  {name}:
    <<: *broker
    environment:
      <<: *settings
      PLAIT_BROKER__NAME: {name}
      PLAIT_BROKER__OVERLAY__ADVERTISE: {name}:4680
      PLAIT_BROKER__OVERLAY__LINKS: {links}
      PLAIT_BROKER__TELEMETRY__DIRECTORY: /telemetry/{name}
    ports: ["${{PLAIT_BIND:-127.0.0.1}}:{port}:4680", "${{PLAIT_BIND:-127.0.0.1}}:{http}:4681"]
    networks: {networks}
    volumes: ["{name}-data:/data", "telemetry:/telemetry", "secrets:/run/plait:ro"]
"""

REST: Final = """
  keyserver:
    <<: *image
    command: [keyserver, /keys, --listen, 0.0.0.0:4683, --host, keyserver, --passphrase-file, /run/plait/keys-passphrase]
    healthcheck: {{test: [CMD, python3, -I, -S, /opt/plait/ready.py, tcp, "4683"], interval: 10s, timeout: 10s, start_period: 60s}}
    depends_on:
      init: {{condition: service_completed_successfully}}
    ports: ["${{PLAIT_BIND:-127.0.0.1}}:4683:4683"]
    networks: {networks}
    volumes: ["keys:/keys", "secrets:/run/plait:ro"]

  # --- examples: docker compose --profile examples up -d ------------------------------------------------------------

  publisher-1: &example
    <<: *image
    profiles: [examples]
    entrypoint: [python3, /examples/quotes.py]
    command: [publish, IBM, SAP]
    environment: {{PLAIT_URL: "plait://{first}:4680", PLAIT_TOKEN_FILE: /run/plait/token}}
    healthcheck: {{test: [CMD, python3, -I, -S, /opt/plait/ready.py, fresh, /tmp/alive], interval: 10s, timeout: 10s, start_period: 60s}}
    depends_on:
      {first}: {{condition: service_healthy}}
    networks: [{first_network}]
    volumes: ["./examples:/examples:ro", "secrets:/run/plait:ro"]

  publisher-2:
    <<: *example
    command: [publish, ACME]
    environment: {{PLAIT_URL: "plait://{last}:4680", PLAIT_TOKEN_FILE: /run/plait/token}}
    depends_on:
      {last}: {{condition: service_healthy}}
    networks: [{last_network}]

  subscriber-1:
    <<: *example
    command: [subscribe, "symbol == 'IBM' and price < 120"]
    environment: {{PLAIT_URL: "plait://{last}:4680", PLAIT_TOKEN_FILE: /run/plait/token}}
    depends_on:
      {last}: {{condition: service_healthy}}
    networks: [{last_network}]

  subscriber-2:
    <<: *example
    command: [subscribe, "symbol in ['SAP', 'ACME']"]

  subscriber-3:
    <<: *example
    command: [subscribe, "price >= 120", bookkeeping]
    environment: {{PLAIT_URL: "plait://{middle}:4680", PLAIT_TOKEN_FILE: /run/plait/token}}
    depends_on:
      {middle}: {{condition: service_healthy}}
    networks: [{middle_network}]

  # --- monitoring: docker compose --profile monitoring up -d ----------------------------------------------------------

  prometheus:
    image: ${{PROMETHEUS_IMAGE:-prom/prometheus:v3.1.0}}
    profiles: [monitoring]
    entrypoint: [prometheus]
    command: [--config.file=/etc/prometheus/prometheus.yml, --storage.tsdb.path=/prometheus, --storage.tsdb.retention.time=15d]
    restart: unless-stopped
    healthcheck: {{test: [CMD, promtool, check, healthy], interval: 10s, timeout: 10s, start_period: 30s}}
    depends_on:
      init: {{condition: service_completed_successfully}}
    ports: ["${{PLAIT_BIND:-127.0.0.1}}:9090:9090"]
    networks: {networks}
    volumes: ["./prometheus:/etc/prometheus:ro", "prometheus:/prometheus", "secrets:/run/plait:ro"]

  grafana:
    image: ${{GRAFANA_IMAGE:-grafana/grafana:11.4.0}}
    profiles: [monitoring]
    restart: unless-stopped
    environment:
      GF_SECURITY_ADMIN_PASSWORD__FILE: /run/plait/grafana-password
      GF_USERS_ALLOW_SIGN_UP: "false"
      GF_ANALYTICS_REPORTING_ENABLED: "false"
    healthcheck: {{test: [CMD, wget, -q, -O, /dev/null, "http://127.0.0.1:3000/api/health"], interval: 10s, timeout: 10s, start_period: 60s}}
    depends_on:
      prometheus: {{condition: service_healthy}}
    ports: ["${{PLAIT_BIND:-127.0.0.1}}:3000:3000"]
    networks: [{first_network}]
    volumes: ["./grafana/provisioning:/etc/grafana/provisioning:ro", "./grafana/dashboards:/etc/grafana/dashboards:ro", "grafana:/var/lib/grafana", "secrets:/run/plait:ro"]

  # --- analytics: docker compose --profile analytics up -d ------------------------------------------------------------

  analytics: &analytics
    image: ${{PLAIT_ANALYTICS_IMAGE:-plait-analytics:0.1.0}}
    build: {{context: .., dockerfile: docker/Dockerfile, target: analytics, args: {{KINDS: broker analytics}}}}
    profiles: [analytics]
    entrypoint: [python3, /etc/plait/every.py, "60", /lake/alive, --]
    command: [plait, analyze, /telemetry, --engine, spark, --out, /lake]
    read_only: true
    tmpfs: ["/tmp:size=1g"]
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    restart: unless-stopped
    healthcheck: {{test: [CMD, python3, -I, -S, /opt/plait/ready.py, fresh, /lake/alive, "600"], interval: 10s, timeout: 10s, start_period: 300s}}
    networks: [{first_network}]
    volumes: ["telemetry:/telemetry:ro", "lake:/lake", "./analytics:/etc/plait:ro"]

networks:
{all_networks}

volumes:
{data_volumes}
  telemetry: {{}}
  secrets: {{}}
  keys: {{}}
  prometheus: {{}}
  grafana: {{}}
  lake: {{}}
"""

RELAYED: Final = """\
  {name}:
    environment:
      PLAIT_BROKER__OVERLAY__LINKS: {links}
"""

RELAY: Final = """\
  {name}:
    image: ${{PLAIT_IMAGE:-plait-broker:0.1.0}}
    entrypoint: [sh, -euc]
    command:
      - |
        plait chaos relay --listen 0.0.0.0:4679 --to {near}:4680 --control 0.0.0.0:4698 &
        exec plait chaos relay --listen 0.0.0.0:4680 --to {far}:4680 --control 0.0.0.0:4699
    read_only: true
    cap_drop: [ALL]
    restart: unless-stopped
    healthcheck: {{test: [CMD, python3, -I, -S, /opt/plait/ready.py, tcp, "4699"], interval: 30s, timeout: 10s, start_period: 30s}}
    networks: [{network}]
"""
