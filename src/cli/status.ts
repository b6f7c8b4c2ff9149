/** `pipectl status`: is the daemon there, what waits, what is stuck. `pipectl openapi`: its API document. */
import type { Command } from 'commander'
import { openClient } from '../client/client.ts'
import { exitCodes, Failure } from '../client/failure.ts'
import { bytes, count, duration } from '../client/quantities.ts'
import { allDestinations, kindOf, trouble } from '../client/workspace.ts'
import { connect, findTarget } from './connection.ts'
import { define, formats } from './define.ts'
import { print } from './output.ts'
import { oneView } from './pipes.ts'

export function addStatusCommands(program: Command): void {
  define<{ check?: boolean }>(program, {
    usage: 'status',
    summary: 'show whether the daemon is well, what waits for delivery and which lanes are stuck',
    examples: ['pipectl status', 'pipectl status --check -o json'],
    output: formats,
    daemon: true,
    options: (command) =>
      command.option('--check', 'exit code 1 when a lane is blocked, stalled or holds a blocking message'),
    action: async (_, options) => {
      const client = await connect(options)
      const health = (await client.health()).body
      const { pipes, usage_by_pipe: usage } = (await client.pipes.list()).body
      const lanes = await allDestinations(client, pipes)
      const stuck = lanes.filter((one) => trouble(one.destination) > 1)
      const sum = (pick: (one: (typeof usage)[string]) => number) =>
        Object.values(usage).reduce((total, one) => total + pick(one), 0)
      const status = {
        url: client.url,
        health: health.status,
        pipes_count: pipes.length,
        paused_pipes_count: pipes.filter((pipe) => pipe.pipe_status === 'paused').length,
        lanes_count: lanes.length,
        ingest_records_24h: sum((one) => one.ingest_records),
        delivered_records_24h: sum((one) => one.delivered_records),
        rejected_requests_24h: sum((one) => one.rejected_requests),
        pending_messages: sum((one) => one.pending_messages),
        pending_bytes: sum((one) => one.pending_bytes),
        oldest_pending_age_seconds: Math.max(
          0,
          ...lanes.map(({ destination }) => destination.lane.oldest_pending_age_seconds),
        ),
        stuck_lanes: stuck.map(({ pipe, destination }) => ({
          pipe_name: pipe.pipe_name,
          destination_id: destination.destination_id,
          lane_state: destination.lane.lane_state,
          last_error: destination.lane.last_error,
        })),
      }
      const rows = [
        ['daemon', `${status.url} (${status.health})`],
        ['pipes', `${status.pipes_count}, ${status.paused_pipes_count} paused`],
        ['records in, 24 h', count(status.ingest_records_24h)],
        ['records delivered, 24 h', count(status.delivered_records_24h)],
        ['requests rejected, 24 h', count(status.rejected_requests_24h)],
        ['waiting', `${count(status.pending_messages)} messages, ${bytes(status.pending_bytes)}`],
        ['oldest waiting', duration(status.oldest_pending_age_seconds)],
        ['lanes', `${status.lanes_count}, ${stuck.length} stuck`],
        ...stuck.map(({ pipe, destination }) => [
          `stuck: ${pipe.pipe_name}/${kindOf(destination)}`,
          `${destination.lane.lane_state}: ${destination.lane.last_error?.message ?? 'blocked by status'}`,
        ]),
      ]
      await print(oneView(JSON.stringify(status), status.health, rows), options.output)
      if (options.check !== true || stuck.length === 0) return
      throw new Failure(
        exitCodes.failed,
        `${stuck.length} of ${lanes.length} lanes are stuck`,
        '`pipectl lanes list --blocked` shows them, `pipectl top` helps to mend them',
      )
    },
  })
  define(program, {
    usage: 'openapi',
    summary: 'print the OpenAPI document of the daemon (YAML)',
    examples: ['pipectl openapi > pipectl.openapi.yaml'],
    daemon: true,
    action: async (_, options) => {
      process.stdout.write(await openClient(await findTarget(options)).openapi())
    },
  })
}
