/** `pipectl tail`: the records of a pipe as they are stored, on the screen or into a program. */
import { type Command, Option } from 'commander'
import { errorCode } from '../../platform/error-code.ts'
import { exitCodes, Failure } from '../client/failure.ts'
import { connect } from './connection.ts'
import { define } from './define.ts'
import { io } from './io.ts'
import { findPipe } from './references.ts'
import type { TailFormat } from './tail/record-lines.ts'
import { coloursOn, interruptible, say } from './terminal.ts'

interface TailOptions {
  output?: TailFormat
  sample?: string
  where: string[]
  afterSeq?: string
}

export function addTailCommand(program: Command): void {
  define<TailOptions>(program, {
    usage: 'tail <pipe>',
    summary: 'show the records of a pipe as they are stored, until interrupted',
    help: `Begins with what is stored from now on. At most --sample records a second are sent, and only those that --where
names are printed; how many were left out is said on stderr. It connects again by itself and goes on behind the last record.
--where compares with the text of the value: a string without or with its quotes, anything else exactly as it was sent
(1.10 is not 1.1). A key inside an object is named with dots: customer.country. Several must hold together.
Exit codes: 3 the pipe was deleted, 4 the key was revoked, 130 interrupted, 141 nobody reads any more.
For records that must all arrive there is \`pipectl pull\`.`,
    examples: [
      'pipectl tail orders',
      'pipectl tail orders --where status=paid --where customer.country=AT',
      'pipectl tail orders --sample 1000 --after-seq 0 | jq .total',
    ],
    daemon: true,
    options: (command) =>
      command
        .option('--sample <count>', 'records a second at most: 1 to 1000 (default 50; 1000 with --where)')
        .addOption(
          new Option('--where <key=value>', 'only records of which this holds; may be given several times')
            .default([], 'all records')
            .argParser((value: string, before: string[]) => [...before, value]),
        )
        .option('--after-seq <stream-seq>', 'begin after this message, as far as it is kept; 0: the first')
        .addOption(
          new Option(
            '-o, --output <format>',
            'lines: for people (default on a terminal); ndjson: one record per line (default elsewhere); json: with msg_id, stream_seq, index and received_ts',
          ).choices(['lines', 'ndjson', 'json']),
        ),
    action: async ([reference], options) => {
      const [{ follow, leftOutNote }, { recordLine }, { conditionOf }] = await Promise.all([
        import('./tail/follow.ts'),
        import('./tail/record-lines.ts'),
        import('./tail/where.ts'),
      ])
      const holds = conditionOf(options.where)
      const client = await connect(options)
      const pipe = await findPipe(client, reference!)
      const sample = options.sample ?? (options.where.length > 0 ? '1000' : '50')
      const query: Record<string, string> = { sample }
      if (options.afterSeq !== undefined) query.after_seq = options.afterSeq
      const leftOut = sumEverySecond((records) => say(leftOutNote(records, sample)))
      const format = chosenFormat(options.output)
      try {
        await interruptible((signal) =>
          follow(client, {
            pipeId: pipe.pipe_id,
            pipeName: pipe.pipe_name,
            query,
            signal,
            onRecords: async (records) => {
              const shown = records.filter(({ text }) => holds(text))
              if (shown.length > 0)
                await write(shown.map((record) => recordLine(record, format, screen())).join(''))
            },
            onLeftOut: leftOut.add,
            onNote: say,
          }),
        )
      } finally {
        leftOut.flush()
      }
    },
  })
}

function chosenFormat(asked: TailFormat | undefined): TailFormat {
  return asked ?? (io().stdout.isTTY === true ? 'lines' : 'ndjson')
}

/** As wide as the window is now: people change that. */
function screen() {
  const { isTTY, columns } = io().stdout
  const isTerminal = isTTY === true
  const width = isTerminal ? columns || 80 : Number.POSITIVE_INFINITY
  return { isTerminal, colours: coloursOn(io().stdout), width }
}

/** Resolves when the system has it. Throws Failure. */
async function write(text: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    io().stdout.write(text, (error) => (error ? reject(error) : resolve()))
  }).catch((error: unknown) => {
    throw new Failure(
      errorCode(error) === 'EPIPE' ? exitCodes.readerGone : exitCodes.failed,
      `what came could not be written: ${error instanceof Error ? error.message : String(error)}`,
      'make room where the output goes, and run the command again',
      error,
    )
  })
}

/** The daemon counts up to twenty times a second: people read one line of it. */
function sumEverySecond(tell: (sum: number) => void): { add(count: number): void; flush(): void } {
  let sum = 0
  let timer: NodeJS.Timeout | undefined
  const flush = () => {
    clearTimeout(timer)
    timer = undefined
    if (sum > 0) tell(sum)
    sum = 0
  }
  const add = (count: number) => {
    sum += count
    timer ??= setTimeout(flush, 1_000)
  }
  return { add, flush }
}
