/** `pipectl limits …`: the ingest limits of a pipe and the default flush plan of its destinations. */
import type { Command } from 'commander'
import type { PipeLimits } from '../../contract/pipe.ts'
import { ifUnchanged } from '../client/changed-meanwhile.ts'
import { usageFailure } from '../client/failure.ts'
import { fieldsFromFlags, limitFlags } from '../client/flag-fields.ts'
import { connect } from './connection.ts'
import { clientCommand, define, group } from './define.ts'
import { addFlagOptions } from './flag-options.ts'
import { oneView, print, rowsOf } from './output.ts'
import { readPipe } from './references.ts'
import { confirm, say } from './terminal.ts'

export function addLimitsCommands(program: Command): void {
  const limits = group(program, 'limits', 'how much a pipe accepts, and how large its batches are')
  clientCommand(limits, {
    usage: 'get <pipe>',
    summary: 'show the limits of a pipe',
    examples: ['pipectl limits get orders'],
    action: async (client, [reference], options) => {
      const { pipe, limits: current } = (await readPipe(client, reference!)).body
      const rows = rowsOf(current ?? {})
      const json = JSON.stringify({ limits: current })
      const table = () => ({ columns: ['LIMIT', 'VALUE'], rows, empty: 'no limits are set' })
      await print({ json, names: () => [pipe.pipe_name], table }, options.output)
    },
  })
  define<Record<string, string | undefined>>(limits, {
    usage: 'set <pipe>',
    summary: 'set limits; the others stay as they are, or get suggested values the first time',
    help: `The first time, all limits are needed. These values are used for the ones that you omit, after a confirmation (or with --yes):
${suggestionText({})}`,
    destructive: true,
    examples: [
      'pipectl limits set orders --records-per-second 500',
      'pipectl limits set clicks --records-per-request 1000 --records-per-second 5000 --records-per-day 100000000 --flush-records 1000 --flush-bytes 4194304 --flush-seconds 1',
    ],
    output: true,
    daemon: true,
    options: (command) => addFlagOptions(command, limitFlags),
    action: async ([reference], options) => {
      const given = fieldsFromFlags(limitFlags, options)
      if (Object.keys(given).length === 0) {
        throw usageFailure('no limit was given', '--help lists them')
      }
      const client = await connect(options)
      const { body: detail, etag } = await readPipe(client, reference!)
      const { pipe, limits: current } = detail
      if (missingOf({ ...current, ...given }).length > 0) {
        const question = `${pipe.pipe_name} has no limits yet. Use these for the ones that you omitted?\n${suggestionText(given)}\n`
        await confirm(question, options.yes)
      }
      const reply = await ifUnchanged(`pipe ${pipe.pipe_name}`, detail, () =>
        client.call('putLimits', {
          path: { pipe_id: pipe.pipe_id },
          body: { ...suggested, ...current, ...given },
          ifMatch: etag,
        }),
      )
      say(`Set the limits of ${pipe.pipe_name}.`)
      await print(oneView(reply.text, pipe.pipe_name, rowsOf(reply.body.limits)), options.output)
    },
  })
  clientCommand(limits, {
    usage: 'clear <pipe>',
    summary:
      'remove the limits of a pipe: ingest is unlimited, and batches have the default size of each destination',
    examples: ['pipectl limits clear orders --yes'],
    output: false,
    destructive: true,
    action: async (client, [reference], options) => {
      const { body: read, etag } = await readPipe(client, reference!)
      const { pipe_id, pipe_name } = read.pipe
      await confirm(`Remove all limits of ${pipe_name}?`, options.yes)
      await ifUnchanged(`pipe ${pipe_name}`, read, () =>
        client.call('deleteLimits', { path: { pipe_id }, ifMatch: etag }),
      )
      say(`${pipe_name} has no limits now.`)
    },
  })
}

/**
 * Suggested limits for a pipe without limits: generous for ingest, and the flush plan of a database for delivery. The
 * limits of a pipe apply to all of its destinations without their own.
 */
const suggested: PipeLimits = {
  pl_ingest_max_records_per_request: 10_000,
  pl_ingest_max_records_per_second: 10_000,
  pl_ingest_max_records_per_day: 100_000_000,
  pl_ingest_max_bytes_per_day: null,
  pl_delivery_max_records_per_flush: 1_000,
  pl_delivery_max_bytes_per_flush: 4_194_304,
  pl_delivery_max_seconds_per_flush: 1,
}

function missingOf(limits: Partial<PipeLimits>): (typeof limitFlags)[number][] {
  return limitFlags.filter(
    ({ field }) => limits[field] === undefined && field !== 'pl_ingest_max_bytes_per_day',
  )
}

/** The suggestion as flags. */
function suggestionText(given: Partial<PipeLimits>): string {
  return missingOf(given)
    .map(({ flag, field }) => `  --${flag} ${suggested[field]}`)
    .join('\n')
}
