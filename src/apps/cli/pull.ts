/** `pipectl pull`: reads records from a pull destination, at least once. */
import { type Command, Option } from 'commander'
import { wordsOf } from '../../contract/destination-words.ts'
import { counted } from '../../platform/quantities.ts'
import type { Client } from '../client/client.ts'
import { ApiFailure, Failure, nothingToDoFailure, usageFailure } from '../client/failure.ts'
import { fullName } from '../client/workspace.ts'
import { connect } from './connection.ts'
import { define } from './define.ts'
import { io } from './io.ts'
import type { PullFormat } from './pull/sinks.ts'
import { findDestination } from './references.ts'
import { tryingAgain } from './retry.ts'
import { interruptible, say } from './terminal.ts'

interface PullOptions {
  once?: boolean
  follow?: boolean
  output: PullFormat
  forwardTo?: string
  exec?: string
  acceptGap?: boolean
}

export function addPullCommand(program: Command): void {
  define<PullOptions>(program, {
    usage: 'pull <destination>',
    summary:
      'take messages from a pull destination: all pending ones, one (--once), or until interrupted (--follow)',
    help: `A message is done once it was written and flushed, the URL returned 2xx, or the command exited with 0, and not before:
a consumer that is killed gets its last message again. Run one consumer per destination.
With --exec, the message is on stdin, and PIPECTL_MSG_ID and PIPECTL_STREAM_SEQ are in the environment.
--forward-to sends the value of PIPECTL_FORWARD_AUTH_HEADER as its Authorization header.`,
    examples: [
      'pipectl pull orders/pull --follow -o ndjson >> orders.ndjson',
      'pipectl pull orders/pull --follow --forward-to http://127.0.0.1:9000/orders',
      "pipectl pull orders/pull --once --exec 'jq .total'",
    ],
    data: true,
    options: (command) =>
      command
        .option('--once', 'take one message, then exit (exit code 6 if there is none)')
        .option('--follow', 'wait for more messages until interrupted')
        .addOption(
          new Option(
            '-o, --output <format>',
            'ndjson: one record per line; json: one message per line, as the daemon sends it',
          )
            .choices(['ndjson', 'json'])
            .default('ndjson'),
        )
        .option('--forward-to <url>', 'POST each message to a URL instead of writing it')
        .option('--exec <command>', 'run a shell command for each message instead of writing it')
        .option('--accept-gap', 'continue if retention has dropped messages that were not pulled yet'),
    action: async ([reference], options) => {
      const mode = options.once === true ? 'once' : options.follow === true ? 'follow' : 'drain'
      checkOptions(options)
      const client = await connect(options)
      const { pipe, destination } = await findDestination(client, reference!, 'destination_pull').catch(
        (error: unknown) => {
          throw error instanceof ApiFailure && error.code === 'forbidden' ? needsRead(client, error) : error
        },
      )
      if (!wordsOf(destination.destination_type).isPulled) {
        throw usageFailure(
          `${fullName(pipe, destination)} is not a pull destination: its records are delivered to it`,
          `add one with \`pipectl destinations create ${pipe.pipe_name} --type pull\``,
        )
      }
      const [{ runPull }, { openCursorFile }, sink] = await Promise.all([
        import('./pull/run-pull.ts'),
        import('./pull/cursor-file.ts'),
        openSink(options, mode === 'follow'),
      ])
      const cursors = openCursorFile(client.url, destination.destination_id, io().env)
      const acceptGap = options.acceptGap === true
      const messages = await interruptible((signal) =>
        runPull(client, destination, { sink, cursors, mode, acceptGap, signal, onNote: say }),
      )
      if (messages === 0) {
        throw nothingToDoFailure('there is no message to pull', 'use --follow to wait for one')
      }
      say(`${counted(messages, 'message')} pulled.`)
    },
  })
}

/** The command reads the lane's position and ack mode. The pull itself does not need these rights. */
function needsRead(client: Client, error: ApiFailure): Failure {
  return new Failure(
    error.exitCode,
    'this key cannot read the destination: `pipectl pull` needs the scope read in addition to pull',
    `create a key with \`pipectl keys create NAME --scope pull --scope read\`; a key with only pull is enough for GET ${client.pullUrl('DESTINATION_ID')}`,
    error,
  )
}

function checkOptions(options: PullOptions): void {
  if (options.once === true && options.follow === true) {
    throw usageFailure('--once and --follow cannot be used together', 'give one of them')
  }
  if (options.exec !== undefined && options.forwardTo !== undefined) {
    throw usageFailure('--exec and --forward-to cannot be used together', 'give one of them')
  }
  if (options.forwardTo !== undefined && !/^https?:\/\/[^@]+$/.test(options.forwardTo)) {
    throw usageFailure(
      '--forward-to must be an http or https URL without credentials',
      'put credentials into PIPECTL_FORWARD_AUTH_HEADER',
    )
  }
}

async function openSink(options: PullOptions, keepTrying: boolean) {
  const { execSink, forwardSink, stdoutSink } = await import('./pull/sinks.ts')
  if (options.exec !== undefined) return execSink(options.exec, options.output)
  if (options.forwardTo === undefined) return stdoutSink(options.output)
  return forwardSink(options.output, {
    url: options.forwardTo,
    authHeader: io().env.PIPECTL_FORWARD_AUTH_HEADER,
    keepTrying,
    onWait: (why, waitMs) => say(tryingAgain(`${options.forwardTo}: ${why}`, waitMs)),
  })
}
