/** `pipectl lanes latency`: how long records take to a destination, and how often its attempts succeed. */
import type { Command } from 'commander'
import type { LaneLatencyReport } from '../../contract/latency.ts'
import { usageHours } from '../../contract/usage.ts'
import { count, hourMs } from '../../platform/quantities.ts'
import { latencyText, shareText } from '../client/latency.ts'
import { lanePath } from '../client/workspace.ts'
import { clientCommand } from './define.ts'
import { agoMs, requireMoment } from './moment.ts'
import { listView, print, type Table } from './output.ts'
import { findDestination } from './references.ts'

interface Options {
  since: string
  until?: string
}

export function addLatencyCommand(lanes: Command): void {
  clientCommand<Options>(lanes, {
    usage: 'latency <destination>',
    summary: 'show how long records take to a destination, and how often its attempts succeed',
    help: `LATENCY is the time from the acceptance of a record until the destination had it; ATTEMPT is the duration of an attempt. Each
percentile is within 10 %. The first row is the whole range; hours without activity are left out. The figures are kept by hour
for 30 days, so a range begins and ends with whole hours (UTC).`,
    examples: [
      'pipectl lanes latency orders/database',
      'pipectl lanes latency orders/database --since 7d -o json',
      'pipectl lanes latency orders/database --since 2027-01-30T08:00:00Z --until 2027-01-30T12:00:00Z',
    ],
    options: (command) =>
      command
        .option(
          '--since <time>',
          'the last 1h, 24h, 7d or 30d, including the current hour; or from the hour of today, yesterday or an ISO 8601 time',
          '24h',
        )
        .option('--until <time>', 'up to the hour that contains this time; default: now'),
    action: async (client, [reference], options) => {
      const { destination } = await findDestination(client, reference!)
      const { body, text } = await client.call('getDestinationLatency', {
        path: lanePath(destination),
        query: queryOf(options),
      })
      const items = () => body.hours.map((hour) => JSON.stringify(hour))
      const names = () => body.hours.map((hour) => hour.hour_ts)
      await print({ json: text, items, names, table: () => tableOf(body, text) }, options.output)
    },
  })
}

function queryOf({ since, until }: Options): Record<string, string> {
  const nowMs = Date.now()
  const lastMs = until === undefined ? nowMs : Date.parse(requireMoment(until, '--until'))
  const hours = Math.floor(lastMs / hourMs) - firstHour(since, nowMs) + 1
  return {
    hours: String(Math.min(usageHours.max, hours)),
    ...(until === undefined ? {} : { until: new Date(lastMs).toISOString() }),
  }
}

/** Counted from the epoch. `24h` are 24 hours including the current one, as in the dashboard. */
function firstHour(since: string, nowMs: number): number {
  const ms = agoMs(since)
  if (ms === null) return Math.floor(Date.parse(requireMoment(since, '--since')) / hourMs)
  return Math.floor(nowMs / hourMs) - Math.max(1, Math.ceil(ms / hourMs)) + 1
}

function tableOf({ total, hours }: LaneLatencyReport, json: string): Table {
  const active = hours.filter(({ records, attempts }) => records + attempts > 0)
  const rows = active.map((hour) => ({ label: hour.hour_ts.slice(0, 16).replace('T', ' '), ...hour }))
  return listView(rows.length === 0 ? [] : [{ label: 'whole range', ...total }, ...rows], {
    json,
    name: (one) => one.label,
    columns: [
      ['HOUR (UTC)', (one) => one.label],
      ['RECORDS', (one) => count(one.records)],
      ['LATENCY P50', (one) => latencyText(one.latency_ms?.p50)],
      ['P95', (one) => latencyText(one.latency_ms?.p95)],
      ['P99', (one) => latencyText(one.latency_ms?.p99)],
      [{ label: 'ATTEMPTS', gives: 1 }, (one) => count(one.attempts)],
      ['FAILED', (one) => count(one.failed_attempts)],
      ['SUCCESS', (one) => shareText(one.success_rate)],
      [{ label: 'ATTEMPT P50', gives: 2 }, (one) => latencyText(one.attempt_ms?.p50)],
      [{ label: 'P99', gives: 3 }, (one) => latencyText(one.attempt_ms?.p99)],
    ],
    empty: 'nothing was delivered or attempted in this time',
  }).table()
}
