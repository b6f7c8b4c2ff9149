/** Measures the machine's resources that a daemon uses, by /proc, and whether it ended by itself. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import type { TestDaemon } from '../daemon.ts'

const lookEveryMs = 200

export class ProcessWatch {
  readonly #daemon: TestDaemon
  readonly #timer: NodeJS.Timeout
  #expectsEnd = false
  maxResidentBytes = 0
  /** Exit codes and signals that nobody asked for. */
  readonly ends: (number | string)[] = []

  constructor(daemon: TestDaemon) {
    this.#daemon = daemon
    this.#timer = setInterval(() => this.#look(), lookEveryMs)
    this.#watchForEnd()
  }

  async killAndRestart(): Promise<void> {
    this.#expectsEnd = true
    await this.#daemon.kill()
    await this.#daemon.start()
    this.#expectsEnd = false
    this.#watchForEnd()
  }

  /** Those of the buffer's files, which come and go with its segments, are left out. */
  descriptors(): number {
    const directory = `/proc/${this.#daemon.pid}/fd`
    return readdirSync(directory).filter((fd) => {
      try {
        return !readlinkSync(`${directory}/${fd}`).includes(`${this.#daemon.dataDir}/buffer/`)
      } catch {
        // It was closed meanwhile.
        return false
      }
    }).length
  }

  stop(): void {
    this.#expectsEnd = true
    clearInterval(this.#timer)
  }

  #look(): void {
    try {
      const status = readFileSync(`/proc/${this.#daemon.pid}/status`, 'utf8')
      const kilobytes = Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0)
      this.maxResidentBytes = Math.max(this.maxResidentBytes, kilobytes * 1024)
    } catch {
      // It is being started again.
    }
  }

  #watchForEnd(): void {
    this.#daemon.exit.then((code) => {
      if (!this.#expectsEnd) this.ends.push(code)
    })
  }
}
