/**
 * Walks a guide word by word: the blocks of a page of docs/ are run, in order, in one bash session, in a directory of their own,
 * against the built program and real servers. What a block is, its info string says:
 *
 *   ```sh                     run; it fails the test unless every command of it ends with 0
 *   ```sh exit=6              run; its last command ends with 6
 *   ```sh eventually          run again until it ends with 0 and its output fits, for 60 s at most: what only looks
 *   ```sh setup=postgresql    not run: the walker starts that server (guide-setups.ts) and exports the variables that the block
 *                             exports, with values of its own. `setup=daemon` gives PIPECTL_URL and PIPECTL_API_KEY
 *   ```sh not-run="…"         not run, and why not
 *   ```output                 what the block before it shows on a terminal, stdout and stderr together. `…` stands for
 *                             anything in a line, a line of `…` alone for any lines
 *   ```python file=check.py   any language: written to that file
 *
 * `pipectl` is the built program; stdin is empty, stdout and stderr are a terminal of 160 columns without colours. A failure
 * names guide and line. A test of test/docs/guides has `await walk('NAME')` for each guide; test/docs/guide-blocks
 * sees to it that no block of any guide goes without one, or without a reason.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { homeEnv } from './cli.ts'
import { binary, cleanEnv } from './daemon.ts'
import { type Setup, setups } from './guide-setups.ts'
import { prepareServers, programFile } from './programs.ts'
import { until } from './until.ts'

export interface Block {
  /** The line of the opening fence, from 1. */
  line: number
  language: string
  options: Readonly<Record<string, string>>
  text: string
}

const blockSeconds = 120
const eventuallyMs = 60_000

/** The test of one guide. `own`: setups that its test has started, besides those of guide-setups.ts or in their place. */
export async function walk(name: string, own: Record<string, Setup> = {}): Promise<void> {
  const file = new URL(`../../docs/${name}.md`, import.meta.url).pathname
  await t.test(`docs/${name}.md, block by block`, async (t) => {
    const guide = await openGuide(`docs/${name}.md`, readFileSync(file, 'utf8'), own)
    t.teardown(() => guide.close())
    let run = 0
    for (const step of guide.steps) {
      const problem = await guide.take(step)
      if (problem !== null) {
        t.fail(problem.split('\n')[0]!)
        t.comment(problem)
        return
      }
      run++
    }
    t.ok(run > 0, `${run} blocks were run`)
  })
}

/** Code blocks, also those in lists. */
export function blocksOf(text: string): Block[] {
  const blocks: Block[] = []
  let open: { block: Block; indent: number; lines: string[] } | null = null
  for (const [at, line] of text.split('\n').entries()) {
    const fence = /^( *)```(.*)$/.exec(line)
    if (open === null) {
      if (fence === null) continue
      const [language = '', ...rest] = fence[2]!.trim().split(' ')
      const block = { line: at + 1, language, options: optionsOf(rest.join(' ')), text: '' }
      open = { block, indent: fence[1]!.length, lines: [] }
    } else if (fence !== null && fence[2] === '') {
      blocks.push({ ...open.block, text: open.lines.map((one) => `${one}\n`).join('') })
      open = null
    } else open.lines.push(line.slice(Math.min(open.indent, line.search(/\S|$/))))
  }
  return blocks
}

function optionsOf(text: string): Record<string, string> {
  const pairs = text.matchAll(/([a-z-]+)(?:=(?:"([^"]*)"|(\S+)))?/g)
  return Object.fromEntries([...pairs].map(([, name, quoted, plain]) => [name!, quoted ?? plain ?? '']))
}

/** A block to run, or to write, with what it must show. */
export interface Step {
  block: Block
  output: Block | null
}

export interface Guide {
  steps: Step[]
  /** Null: as the guide says. Otherwise what is not, with guide and line. */
  take(step: Step): Promise<string | null>
  close(): Promise<void>
}

/** Starts what the guide's setup blocks ask for. Throws, with the line, where a block cannot be understood. */
export async function openGuide(name: string, text: string, own: Record<string, Setup> = {}): Promise<Guide> {
  const blocks = blocksOf(text)
  const wrong = (block: Block, what: string) => new Error(`${name}:${block.line}: ${what}`)
  const steps: Step[] = []
  for (const [at, block] of blocks.entries()) {
    const next = blocks[at + 1]
    const before = blocks[at - 1]
    const unknown = Object.keys(block.options).find((one) => !known.includes(one))
    if (unknown !== undefined) throw wrong(block, `no block has the option ${unknown}`)
    if (block.language === 'output' && (before?.language !== 'sh' || !isRun(before)))
      throw wrong(block, 'an output block stands right after the sh block that shows it')
    const output = next?.language === 'output' ? next : null
    if (isRun(block) || 'file' in block.options) steps.push({ block, output })
  }
  const closing: (() => Promise<unknown> | unknown)[] = []
  const dir = mkdtempSync(path.join(os.tmpdir(), 'pipectl-guide-'))
  closing.push(() => rmSync(dir, { recursive: true, force: true }))
  const close = async () => {
    for (const end of closing.reverse()) await end()
  }
  try {
    const env: Record<string, string> = {}
    for (const block of blocks.filter(({ options }) => 'setup' in options)) {
      const start = own[block.options.setup!] ?? setups[block.options.setup!]
      if (start === undefined) throw wrong(block, `there is no setup ${block.options.setup}`)
      const started = await start(dir)
      closing.push(() => started.stop())
      const exported = [...block.text.matchAll(/(?:^|\s)([A-Z][A-Z0-9_]*)=/g)].map(([, one = '']) => one)
      const missing = exported.filter((one) => !(one in started.env))
      if (missing.length > 0) throw wrong(block, `this setup gives no ${missing.join(', ')}`)
      for (const one of exported) env[one] = started.env[one]!
    }
    const session = await openSession(dir, env)
    closing.push(() => session.close())
    return { steps, close, take: (step) => take(session, name, step) }
  } catch (error) {
    await close()
    throw error
  }
}

const known = ['setup', 'exit', 'eventually', 'not-run', 'file']

function isRun({ language, options }: Block): boolean {
  return language === 'sh' && !('setup' in options || 'not-run' in options || 'file' in options)
}

async function take(session: Session, name: string, { block, output }: Step): Promise<string | null> {
  if ('file' in block.options) {
    writeFileSync(path.join(session.directory, block.options.file!), block.text)
    return null
  }
  const deadline = Date.now() + eventuallyMs
  for (;;) {
    const problem = await attempt(session, name, block, output)
    if (problem === null || !('eventually' in block.options) || Date.now() > deadline) return problem
    // The checked command needs the CPU more.
    await setTimeout(50)
  }
}

async function attempt(
  session: Session,
  name: string,
  block: Block,
  output: Block | null,
): Promise<string | null> {
  const { options } = block
  const { code, line, shown } = await session.run(block)
  const expected = Number(options.exit ?? 0)
  if (code !== expected) {
    const ended =
      code === null
        ? `did not end within ${blockSeconds} s, or ended the session`
        : `ended with ${code}, not ${expected}`
    return `${name}:${line ?? block.line}: the block of line ${block.line} ${ended}:\n${shown}`
  }
  if (output === null || fits(shown, output.text)) return null
  return `${name}:${output.line}: the block of line ${block.line} should show\n${output.text}\nbut shows\n${shown}`
}

/** `…` in a line: anything in it; a line of `…` alone: any lines, or none. */
export function fits(shown: string, expected: string): boolean {
  const lines = (text: string) => text.trimEnd().split('\n')
  const patterns = lines(expected).map((line) => {
    if (line.trim() === '…') return '(?:[^\\n]*\\n)*'
    const parts = line.trimEnd().split('…')
    return `${parts.map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('[^\\n]*')} *\\n`
  })
  return new RegExp(`^${patterns.join('')}$`).test(`${lines(shown).join('\n')}\n`)
}

interface Session {
  directory: string
  /** `line`: of the guide, where a command failed. `code` null: it did not end in time, and the session is over. */
  run(block: Block): Promise<{ code: number | null; line: number | null; shown: string }>
  close(): Promise<void>
}

/** In a terminal of its own, which `script` makes. Blocks come as files; how each has ended is a file too. */
async function openSession(dir: string, env: Record<string, string>): Promise<Session> {
  prepareServers(['curl', 'jq', 'mariadb', 'openssl', 'psql'])
  const [bin, work, control] = ['bin', 'work', 'control'].map((name) => path.join(dir, name))
  for (const one of [bin!, work!, control!, path.join(dir, 'home')]) mkdirSync(one)
  writeFileSync(path.join(bin!, 'pipectl'), `#!/bin/sh\nexec '${process.execPath}' '${binary}' "$@"\n`)
  chmodSync(path.join(bin!, 'pipectl'), 0o755)
  const pipe = path.join(control!, 'blocks')
  execFileSync('mkfifo', [pipe])
  // For reading too: opening it for writing alone would wait for a shell that may have died.
  const blocks = openSync(pipe, 'r+')
  writeFileSync(path.join(control!, 'session.sh'), sessionScript(control!))
  const child = spawn(
    programFile('script'),
    ['-qfec', `bash --noprofile --norc ${path.join(control!, 'session.sh')}`, '/dev/null'],
    {
      cwd: work!,
      env: cleanEnv({
        ...homeEnv(path.join(dir, 'home')),
        PATH: `${bin}:${path.dirname(process.execPath)}:${process.env.PATH}`,
        ...{ NO_COLOR: '1', TERM: 'xterm', PAGER: 'cat', PSQLRC: '/dev/null', LC_ALL: 'C.UTF-8' },
        ...env,
      }),
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  let shown = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    shown += text
  })
  const read = (name: string) => readIfThere(path.join(control!, name))
  const shell = Number(await until('the shell has started', () => read('pid')))
  let count = 0
  return {
    directory: work!,
    async run(block) {
      const at = ++count
      shown = ''
      const file = path.join(control!, `block-${at}.sh`)
      // Lines before it, so that the shell's line numbers are those of the guide.
      writeFileSync(file, `${'\n'.repeat(block.line)}${block.text}`)
      writeSync(blocks, `${file}\n`)
      // A block that says `exit` ends the session.
      const hasEnded = () => read(`block-${at}.sh.ended`) ?? (child.exitCode === null ? null : '')
      const ended = await until('the block has ended', () => hasEnded() !== null, {
        timeoutMs: blockSeconds * 1000,
      }).then(hasEnded, () => null)
      const marker = `:ended-${at}:`
      // Its last output may still be on its way through the terminal.
      if (ended) await until('all of its output is read', () => shown.includes(marker))
      const text = withoutTerminalCodes(shown.split(marker)[0]!)
      if (!ended) return { code: null, line: null, shown: text }
      const [code, line] = ended.split(' ').map(Number)
      return { code: code!, line: line || null, shown: text }
    },
    close: async () => {
      closeSync(blocks)
      await endSession(child, shell)
    },
  }
}

/** A block is sourced, so that its variables and its directory stay. */
function sessionScript(control: string): string {
  return `stty cols 160 rows 50 -echo
exec < /dev/null
exec 9< ${control}/blocks
echo $$ > ${control}/pid.new && mv ${control}/pid.new ${control}/pid
__n=0
while read -r -u 9 __block; do
  __n=$((__n + 1))
  __line=0
  trap '__code=$?; if [[ $BASH_SOURCE == "$__block" ]]; then __line=$LINENO; return $__code; fi' ERR
  source "$__block"
  __code=$?
  trap - ERR
  printf ':ended-%s:' $__n
  echo "$__code $__line" > "$__block.new" && mv "$__block.new" "$__block.ended"
done
`
}

async function endSession(child: ChildProcess, shell: number): Promise<void> {
  if (child.exitCode !== null) return
  const gone = new Promise((resolve) => child.once('exit', resolve))
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    try {
      // With what the guide has left in the background.
      process.kill(-shell, signal)
    } catch {
      // It ended in the meantime.
    }
  }
  await gone
}

function readIfThere(file: string): string | null {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch {
    return null
  }
}

/** As a person sees it at the end: a line that was written over (progress) is its last text. Other control characters would upset TAP. */
function withoutTerminalCodes(text: string): string {
  const lines = text.replaceAll('\r\n', '\n').split('\n')
  return (
    lines
      .map((line) => line.slice(line.lastIndexOf('\r') + 1))
      .join('\n')
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is removed
      .replaceAll(/\u001b\[[0-9;?]*[A-Za-z]/g, '')
      .replaceAll(/[^\n\t\P{Cc}]/gu, '')
  )
}
