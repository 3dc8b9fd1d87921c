// For monitoring that is built with jsonnet: dashboards, alerts and recording rules as a mixin.
local groups(text) = std.parseYaml(text).groups;

{
  grafanaDashboards+:: {
    'idlestate-overview.json': import '../../metrics/dashboards/overview.json',
    'idlestate-operator.json': import '../../metrics/dashboards/operator.json',
    'idlestate-policy.json': import '../../metrics/dashboards/policy.json',
    'idlestate-spark.json': import '../../metrics/dashboards/spark.json',
  },
  prometheusAlerts+:: { groups+: groups(importstr '../prometheus/alerts.yaml') },
  prometheusRules+:: { groups+: groups(importstr '../prometheus/rules.yaml') },
}
