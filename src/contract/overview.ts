/**
 * The complete state of a workspace in one response. The dashboard and `pipectl top` poll it every few seconds. Its
 * cost grows with the number of pipes and lanes, never with messages. A client that sends `since` receives only what
 * changed, so polling an idle workspace costs almost nothing.
 */
import Type, { type Static } from 'typebox'
import { destinationStatus, LaneStatus } from './destination.ts'
import { destinationTypes } from './destination-words.ts'
import { nodeStates } from './node-words.ts'
import { notReadyNames, readyWarningNames } from './ready-words.ts'
import { ReplicaFacts } from './replica-facts.ts'
import { boolean, count, nullable, positive, query, string, timestamp, uuid } from './schema-parts.ts'
import { mismatchActions } from './schema-words.ts'
import { ingestCountFields, usageCountFields } from './usage.ts'

export const UsageToday = Type.Object(usageCountFields, { description: 'Since 00:00 UTC.' })
export type UsageToday = Static<typeof UsageToday>

export const PipeCounters = Type.Object(ingestCountFields, {
  description:
    'Counted since `service.started_ts`. For two overviews with the same `started_ts`, the rate is this difference divided by that of `server_ts`. `delivered_records` of a lane is such a counter too.',
})
export type PipeCounters = Static<typeof PipeCounters>

export const OverviewLane = Type.Object({
  destination_id: uuid(),
  destination_type: Type.Enum([...destinationTypes]),
  destination_name: Type.String(),
  destination_status: destinationStatus,
  destination_target: string('The target of its records, in one short text without secrets.'),
  destination_server: string('The server of that target with its port; empty: there is none.'),
  lane: LaneStatus,
})
export type OverviewLane = Static<typeof OverviewLane>

export const OverviewPipe = Type.Object({
  pipe_id: uuid(),
  pipe_name: Type.String(),
  pipe_description: Type.String(),
  pipe_status: Type.Enum(['active', 'paused']),
  schema_on_mismatch: Type.Optional(
    Type.Enum([...mismatchActions], {
      description: 'The treatment of records that do not match the schema. Absent: the pipe has no schema.',
    }),
  ),
  usage_today: UsageToday,
  counters: PipeCounters,
  last_ingest_ts: nullable(timestamp()),
  pending_messages: count(),
  pending_bytes: count(),
  node_name: nullable(
    string('The cluster node that delivers the pipe; null: none at this moment, or there is no cluster.'),
  ),
  lanes: Type.Array(OverviewLane),
})
export type OverviewPipe = Static<typeof OverviewPipe>

export const OverviewNode = Type.Object({
  node_name: Type.String(),
  node_state: Type.Enum([...nodeStates], {
    description:
      'live: it accepts records and delivers. draining: it accepts records and hands over its pipes. expired: it stopped unexpectedly or is disconnected; others take over its pipes.',
  }),
  owned_pipes: count('The number of pipes that the node delivers, among those that this key can see.'),
  is_this: boolean('True for the node that sent this response.'),
})
export type OverviewNode = Static<typeof OverviewNode>

export const OverviewCluster = Type.Object({
  nodes: Type.Array(OverviewNode, { description: 'By name.' }),
  unowned_pipes: count('Pipes that no node delivers at this moment: their records are accepted and wait.'),
})
export type OverviewCluster = Static<typeof OverviewCluster>

export const Overview = Type.Object({
  revision: string('Identifies this state of the pipes, for `since` of the next request.'),
  since: nullable(
    string(
      'The revision that `pipes` and `removed_pipe_ids` continue. Null: this is the complete state, and replaces everything from before.',
    ),
  ),
  server_ts: timestamp(),
  pipes: Type.Array(OverviewPipe, {
    description:
      'Sorted by name; with `since`, each changed pipe with all of its lanes. The age of pending messages (`oldest_pending_age_seconds`) does not count as a change: it grows with `server_ts`.',
  }),
  removed_pipe_ids: Type.Array(uuid(), { description: 'Pipes deleted after `since`; empty without it.' }),
  buffer: Type.Object({
    size_bytes: count(),
    max_bytes: count(),
    free_disk_bytes: count(),
    min_free_disk_bytes: count(),
    oldest_ts: nullable(timestamp()),
    unavailable_reason: nullable(string('The reason why ingest is rejected for all pipes; null: it is not.')),
  }),
  service: Type.Object({
    version: Type.String(),
    started_ts: timestamp(),
    is_ready: Type.Boolean(),
    reasons: Type.Array(Type.Enum(notReadyNames)),
    warnings: Type.Array(Type.Enum(readyWarningNames)),
    http_engine: Type.String(),
    ingest_workers: positive(),
    delivery_restarts: count(),
    egress_private: Type.Enum(['allow', 'deny']),
    replica: Type.Union([ReplicaFacts, Type.Null()], {
      description: 'The replica in object storage; null: there is none (`replica.url` is not set).',
    }),
  }),
  cluster: Type.Union([OverviewCluster, Type.Null()], {
    description: 'The nodes of the cluster; null: a single machine.',
  }),
})
export type Overview = Static<typeof Overview>

export const sinceParameter = query(
  'since',
  Type.String(),
  'The `revision` of an overview: the response then has only the pipes that have changed since. If the daemon does not know the revision (after a restart, or after minutes without a request), the response is complete and has `since: null`.',
)
