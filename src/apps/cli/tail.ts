/** `pipectl tail`: shows the records of a pipe as they are stored, on the terminal or for a program. */
import { type Command, Option } from 'commander'
import { connect } from './connection.ts'
import { define } from './define.ts'
import { repeated } from './flag-options.ts'
import { io } from './io.ts'
import { findPipe } from './references.ts'
import type { TailFormat } from './tail/records.ts'
import { coloursOn, interruptible, say, writeData } from './terminal.ts'

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
    help: `Begins with the next record that is stored. The daemon sends at most --sample records a second, of which --where selects
some; stderr shows how many were left out. After a lost connection it reconnects and continues after the last record.
--where compares the text of the value: a string with or without its quotes, anything else exactly as it was sent
(1.10 is not 1.1). A key inside an object is written with dots: customer.country. All conditions must be true.
Exit codes: 3 the pipe was deleted, 4 the key was revoked, 130 interrupted, 141 the reader of the output is gone.
To receive every record, use \`pipectl pull\`.`,
    examples: [
      'pipectl tail orders',
      'pipectl tail orders --where status=paid --where customer.country=AT',
      'pipectl tail orders --sample 1000 --after-seq 0 | jq .total',
    ],
    daemon: true,
    options: (command) =>
      command
        .option(
          '--sample <count>',
          'maximum number of records per second: 1 to 1000 (default 50; 1000 with --where)',
        )
        .addOption(
          new Option('--where <key=value>', 'only records with this value; can be repeated')
            .default([], 'all records')
            .argParser(repeated),
        )
        .option(
          '--after-seq <stream-seq>',
          'begin after this message, if it is kept; 0: with the oldest one that is kept',
        )
        .addOption(
          new Option(
            '-o, --output <format>',
            'lines: for people (default on a terminal); ndjson: one record per line (default elsewhere); json: with msg_id, stream_seq, index and received_ts',
          ).choices(['lines', 'ndjson', 'json']),
        ),
    action: async ([reference], options) => {
      const { follow, leftOutNote } = await import('./tail/follow.ts')
      const { conditionOf, recordLine } = await import('./tail/records.ts')
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
                await write(shown.map((one) => recordLine(one, format, screen())).join(''))
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

/** The current width of the window, which the user can change. */
function screen() {
  const { isTTY, columns } = io().stdout
  const isTerminal = isTTY === true
  const width = isTerminal ? columns || 80 : Number.POSITIVE_INFINITY
  return { isTerminal, colours: coloursOn(io().stdout), width }
}

function write(text: string): Promise<void> {
  const hint = 'make room where the output goes, and run the command again'
  return writeData(text, 'the records could not be written', hint)
}

/** The daemon reports dropped records up to twenty times a second. They are summed into one line. */
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
