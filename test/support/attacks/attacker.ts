/** One attacker: a process that carries out one attack at a time, with the key of one workspace. */
import { type ChildProcess, fork } from 'node:child_process'
import { childFlags } from '../child-flags.ts'
import type { Target } from './arena.ts'
import type { AttackName } from './attacks.ts'

export type AttackerOrder =
  | { kind: 'start'; name: AttackName; target: Target; seed: number }
  | { kind: 'stop' }
export type AttackerReport =
  | { kind: 'ready' }
  | { kind: 'under-way' }
  | { kind: 'ended'; statuses: Record<number, number> }

export class Attacker {
  readonly #child: ChildProcess
  readonly #heard: {
    kind: string
    resolve: (report: AttackerReport) => void
    reject: (error: Error) => void
  }[] = []
  #isGone = false

  private constructor(child: ChildProcess) {
    this.#child = child
    child.on('message', (report: AttackerReport) => {
      // One that never got under way, e.g. because the daemon was killed, will not say so any more.
      if (report.kind === 'ended') this.#tell({ kind: 'under-way' })
      this.#tell(report)
    })
    child.once('exit', (code, signal) => {
      this.#isGone = true
      for (const { reject } of this.#heard) reject(new Error(`the attacker ended with ${code ?? signal}`))
    })
  }

  static async open(): Promise<Attacker> {
    const attacker = new Attacker(
      fork(new URL('./attacker-child.ts', import.meta.url), { execArgv: [...childFlags], stdio: 'inherit' }),
    )
    await attacker.#next('ready')
    return attacker
  }

  /** Resolves when the attack is under way, or has ended without that. It goes on until `stop`. */
  async start(name: AttackName, target: Target, seed: number): Promise<void> {
    const underWay = this.#next('under-way')
    this.#order({ kind: 'start', name, target, seed })
    await underWay
  }

  /** Resolves with the responses it got, by status (0: none), when nothing of it is left but what the daemon stored. */
  async stop(): Promise<Record<number, number>> {
    const ended = this.#next('ended')
    this.#order({ kind: 'stop' })
    const report = await ended
    return report.kind === 'ended' ? report.statuses : {}
  }

  async close(): Promise<void> {
    if (this.#isGone) return
    const exit = new Promise((resolve) => this.#child.once('exit', resolve))
    this.#child.kill('SIGKILL')
    await exit
  }

  #order(order: AttackerOrder): void {
    this.#child.send(order)
  }

  #tell(report: AttackerReport): void {
    const place = this.#heard.findIndex(({ kind }) => kind === report.kind)
    if (place >= 0) this.#heard.splice(place, 1)[0]?.resolve(report)
  }

  #next(kind: AttackerReport['kind']): Promise<AttackerReport> {
    return new Promise((resolve, reject) => this.#heard.push({ kind, resolve, reject }))
  }
}
