/** `pipectl usage`: the accepted and delivered amounts, by hour. */
import type { Command } from 'commander'
import { bytes, count } from '../../platform/quantities.ts'
import { clientCommand } from './define.ts'
import { listView, print } from './output.ts'
import { findPipe } from './references.ts'

export function addUsageCommand(program: Command): void {
  clientCommand<{ hours?: string }>(program, {
    usage: 'usage [pipe]',
    summary: 'show what a pipe, or all pipes together, accepted and delivered in each of the last hours',
    help: `Hours are in UTC, oldest first; the last one is the current hour, which is not complete. Requests are counted immediately,
deliveries when their lane saves its progress. FILTERED: records that a transform filtered out.`,
    examples: ['pipectl usage', 'pipectl usage orders --hours 720'],
    options: (command) => command.option('--hours <number>', 'number of hours, 1 to 720', '24'),
    action: async (client, [reference], options) => {
      const pipe = reference === undefined ? null : await findPipe(client, reference)
      const query = { hours: options.hours }
      const { body, text } =
        pipe === null
          ? await client.call('getUsage', { query })
          : await client.call('getPipeUsage', { path: { pipe_id: pipe.pipe_id }, query })
      const view = listView(body.hours, {
        json: text,
        name: (hour) => hour.hour_ts,
        columns: [
          ['HOUR (UTC)', (hour) => hour.hour_ts.slice(0, 16).replace('T', ' ')],
          [{ label: 'REQUESTS', gives: 3 }, (hour) => count(hour.ingest_requests)],
          ['RECORDS', (hour) => count(hour.ingest_records)],
          [{ label: 'BYTES', gives: 4 }, (hour) => bytes(hour.ingest_bytes)],
          ['REJECTED', (hour) => count(hour.rejected_requests)],
          ['DELIVERED', (hour) => count(hour.delivered_records)],
          [{ label: 'FAILED ATTEMPTS', gives: 2 }, (hour) => count(hour.failed_attempts)],
          [{ label: 'SKIPPED', gives: 1 }, (hour) => count(hour.skipped_records)],
          [{ label: 'FILTERED', gives: 1 }, (hour) => count(hour.filtered_records)],
        ],
      })
      await print(view, options.output)
    },
  })
}
