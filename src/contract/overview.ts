/**
 * Everything that a screen shows of a workspace at one moment, in one response: what the dashboard and `pipectl top` ask
 * for every few seconds. Its cost grows with pipes and lanes, never with messages; who says what it has (`since`) gets what
 * is different, so that at rest it costs next to nothing.
 */
import Type, { type Static } from 'typebox'
import { destinationStatus, LaneStatus } from './destination.ts'
import { destinationTypes } from './destination-words.ts'
import { nodeStates } from './node-words.ts'
import { notReadyNames, readyWarningNames } from './ready-words.ts'
import { ingestCountFields, usageCountFields } from './usage.ts'

const count = () => Type.Integer({ minimum: 0 })
const uuid = () => Type.String({ format: 'uuid' })
const timestamp = () => Type.String({ format: 'date-time' })
const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()])

export const UsageToday = Type.Object(usageCountFields, { description: 'Since 00:00 UTC.' })
export type UsageToday = Static<typeof UsageToday>

export const PipeCounters = Type.Object(ingestCountFields, {
  description:
    'Since `service.started_ts`: of two overviews with the same one, the difference divided by that of `server_ts` is the rate. Of a lane, `delivered_records` is such a counter.',
})
export type PipeCounters = Static<typeof PipeCounters>

export const OverviewLane = Type.Object({
  destination_id: uuid(),
  destination_type: Type.Enum([...destinationTypes]),
  destination_name: Type.String(),
  destination_status: destinationStatus,
  destination_target: Type.String({
    description: 'Where it puts records, in one short text without secrets.',
  }),
  lane: LaneStatus,
})
export type OverviewLane = Static<typeof OverviewLane>

export const OverviewPipe = Type.Object({
  pipe_id: uuid(),
  pipe_name: Type.String(),
  pipe_description: Type.String(),
  pipe_status: Type.Enum(['active', 'paused']),
  usage_today: UsageToday,
  counters: PipeCounters,
  last_ingest_ts: nullable(timestamp()),
  pending_messages: count(),
  pending_bytes: count(),
  node_name: nullable(
    Type.String({
      description:
        'The node of the cluster that delivers what the pipe takes in; null: none at this moment, or there is no cluster.',
    }),
  ),
  lanes: Type.Array(OverviewLane),
})
export type OverviewPipe = Static<typeof OverviewPipe>

export const OverviewNode = Type.Object({
  node_name: Type.String(),
  node_state: Type.Enum([...nodeStates], {
    description:
      'live: it takes records and delivers. draining: it takes records, and hands over its pipes. expired: it ended without a word, or is cut off; others take over its pipes.',
  }),
  owned_pipes: Type.Integer({
    minimum: 0,
    description: 'Of the pipes that this key may see: those whose records the node delivers.',
  }),
  is_this: Type.Boolean({ description: 'It is the node that made this response.' }),
})
export type OverviewNode = Static<typeof OverviewNode>

export const OverviewCluster = Type.Object({
  nodes: Type.Array(OverviewNode, { description: 'By name.' }),
  unowned_pipes: Type.Integer({
    minimum: 0,
    description: 'Pipes that no node delivers at this moment: their records are taken and wait.',
  }),
})
export type OverviewCluster = Static<typeof OverviewCluster>

export const Overview = Type.Object({
  revision: Type.String({ description: 'Names this state of the pipes: for `since` of the next request.' }),
  since: nullable(
    Type.String({
      description:
        'The revision that `pipes` and `removed_pipe_ids` continue. Null: this is everything, and what is known from before is to be forgotten.',
    }),
  ),
  server_ts: timestamp(),
  pipes: Type.Array(OverviewPipe, {
    description:
      'By name; with `since`, each that is different, with all of its lanes. The age of what waits in a lane (`oldest_pending_age_seconds`) alone does not make it different: until then it grows as `server_ts` does.',
  }),
  removed_pipe_ids: Type.Array(uuid(), { description: 'Deleted after `since`; empty without it.' }),
  buffer: Type.Object({
    size_bytes: count(),
    max_bytes: count(),
    free_disk_bytes: count(),
    min_free_disk_bytes: count(),
    oldest_ts: nullable(timestamp()),
    unavailable_reason: nullable(
      Type.String({ description: 'Why ingest is rejected for all pipes; null: it is not.' }),
    ),
  }),
  service: Type.Object({
    version: Type.String(),
    started_ts: timestamp(),
    is_ready: Type.Boolean(),
    reasons: Type.Array(Type.Enum(notReadyNames)),
    warnings: Type.Array(Type.Enum(readyWarningNames)),
    http_engine: Type.String(),
    ingest_workers: Type.Integer({ minimum: 1 }),
    delivery_restarts: count(),
    egress_private: Type.Enum(['allow', 'deny']),
  }),
  cluster: Type.Union([OverviewCluster, Type.Null()], {
    description: 'The nodes that serve together; null: it is one machine.',
  }),
})
export type Overview = Static<typeof Overview>

export const sinceParameter = {
  in: 'query',
  name: 'since',
  schema: Type.String(),
  description:
    'The `revision` of an overview: the response then has only the pipes that are different since. Everything when the daemon does not know it (it was started again, or nobody asked for minutes), which `since: null` says.',
} as const
