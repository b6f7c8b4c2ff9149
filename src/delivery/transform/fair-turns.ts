/**
 * Decides the order of jobs in a thread that workspaces share. The next turn goes to the workspace with the least used
 * time, and within it to the lane with the least. So a workspace that needs little waits for at most one turn of another
 * workspace, however many lanes and records that one has.
 *
 * A newcomer starts with the least used time of the others: it is not penalized for its past and gains nothing by a pause.
 */
import type { Turn } from './thread-protocol.ts'

export class FairTurns<T extends Turn> {
  readonly #workspaces = new Group<Group<Queue<T>>>()

  /** `headStartMs`: the time that the present workspaces can use before the first turn of a new one. */
  add(job: T, headStartMs = 0): void {
    const lanes = this.#workspaces.join(job.workspaceId, () => new Group<Queue<T>>(), headStartMs)
    lanes.join(job.destinationId, () => new Queue<T>(), 0).jobs.push(job)
  }

  /** Returns the next job without removing it. */
  next(): T | undefined {
    return this.#workspaces.least()?.least()?.jobs[0]
  }

  /** Adds time that the job has used to its lane and its workspace. */
  used(job: T, ms: number): void {
    this.#workspaces.use(job.workspaceId, ms)
    this.#workspaces.get(job.workspaceId)?.use(job.destinationId, ms)
  }

  remove(job: T): void {
    const lanes = this.#workspaces.get(job.workspaceId)
    const queue = lanes?.get(job.destinationId)
    if (lanes === undefined || queue === undefined) return
    queue.jobs = queue.jobs.filter((one) => one !== job)
    if (queue.jobs.length === 0) lanes.leave(job.destinationId)
    if (lanes.size === 0) this.#workspaces.leave(job.workspaceId)
  }

  get workspaces(): number {
    return this.#workspaces.size
  }
}

class Queue<T> {
  jobs: T[] = []
}

/** Members with the time that each has used. */
class Group<Member> {
  readonly #members = new Map<string, { member: Member; usedMs: number }>()

  join(key: string, make: () => Member, headStartMs: number): Member {
    const known = this.#members.get(key)
    if (known !== undefined) return known.member
    const member = make()
    this.#members.set(key, { member, usedMs: (this.#least()?.usedMs ?? 0) + headStartMs })
    return member
  }

  leave(key: string): void {
    this.#members.delete(key)
  }

  get(key: string): Member | undefined {
    return this.#members.get(key)?.member
  }

  use(key: string, ms: number): void {
    const found = this.#members.get(key)
    if (found !== undefined) found.usedMs += ms
  }

  least(): Member | undefined {
    return this.#least()?.member
  }

  get size(): number {
    return this.#members.size
  }

  /** Returns the last one added when several have used the least. */
  #least() {
    let least: { member: Member; usedMs: number } | undefined
    for (const one of this.#members.values())
      if (least === undefined || one.usedMs <= least.usedMs) least = one
    return least
  }
}
