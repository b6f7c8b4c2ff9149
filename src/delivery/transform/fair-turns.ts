/**
 * Decides whose turn it is in a thread that workspaces share. The turn goes to the workspace that has used the least
 * time, and in it to the lane that has. A workspace that costs little therefore waits for one turn of another's,
 * whatever the number of the other's lanes and records.
 *
 * A newcomer begins with as much as the one that has used the least: it neither waits for its past nor gains by a
 * pause.
 */
import type { Turn } from './thread-protocol.ts'

export class FairTurns<T extends Turn> {
  readonly #workspaces = new Group<Group<Queue<T>>>()

  /** `headStartMs`: what those that are here can use before it has its first turn, where it is the first of its workspace. */
  add(job: T, headStartMs = 0): void {
    const lanes = this.#workspaces.join(job.workspaceId, () => new Group<Queue<T>>(), headStartMs)
    lanes.join(job.destinationId, () => new Queue<T>(), 0).jobs.push(job)
  }

  /** It stays where it is until it is removed. */
  next(): T | undefined {
    return this.#workspaces.least()?.least()?.jobs[0]
  }

  /** The time that the job has used is its lane's and its workspace's. */
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

/** Members with what each of them has used. */
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

  /** The one that came last, if there are several. */
  #least() {
    let least: { member: Member; usedMs: number } | undefined
    for (const one of this.#members.values())
      if (least === undefined || one.usedMs <= least.usedMs) least = one
    return least
  }
}
