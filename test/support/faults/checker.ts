/** A long-lived process that runs an oracle of the buffer (store-check.ts): opening one costs more than many checks. */
import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { compiled } from './compiled.ts'
import type { CheckTask, Verdict } from './store-check.ts'

const limitMs = 120_000

export class Checker<Task = CheckTask> {
  readonly #env: Record<string, string>
  readonly #program: string
  #child: ChildProcess | null = null
  #answer: (verdict: Verdict) => void = () => {}
  #last: Promise<unknown> = Promise.resolve()

  /** `env`: of a disk on which nothing fails. `program`: reads one task per line, writes one verdict per line. */
  constructor(env: Record<string, string>, program = 'store-check') {
    this.#env = env
    this.#program = program
  }

  /** One at a time. A check that kills or hangs its process is a verdict too. */
  check(task: Task): Promise<Verdict> {
    const verdict = this.#last.then(() => this.#check(task))
    this.#last = verdict
    return verdict
  }

  async #check(task: Task): Promise<Verdict> {
    this.#child ??= this.#start()
    const verdict = new Promise<Verdict>((resolve) => {
      this.#answer = resolve
    })
    const timer = setTimeout(() => this.#end('hangs'), limitMs)
    this.#child.stdin?.write(`${JSON.stringify(task)}\n`)
    const found = await verdict
    clearTimeout(timer)
    // After a failure nobody knows what its threads still hold.
    if (found !== null) this.#end(found)
    return found
  }

  #start(): ChildProcess {
    const env = { ...process.env, ...this.#env }
    const child = spawn(process.execPath, [compiled(this.#program)], { env, stdio: ['pipe', 'pipe', 'pipe'] })
    let errors = ''
    child.stderr?.on('data', (text) => {
      errors += text
    })
    child.stdin?.on('error', () => {})
    createInterface({ input: child.stdout! }).on('line', (line) => this.#answer(JSON.parse(line)))
    child.once('exit', (code, signal) => {
      if (this.#child === child) this.#end(`the process ends with ${code ?? signal}: ${errors.slice(0, 300)}`)
    })
    return child
  }

  #end(verdict: Verdict): void {
    this.#child?.kill('SIGKILL')
    this.#child = null
    this.#answer(verdict)
  }

  close(): void {
    this.#end(null)
  }
}
