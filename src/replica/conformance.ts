/**
 * Checks that an object store behaves as a replica needs it, property by property, below `probe/`. Everything that was created is
 * removed at the end; after a kill it stays, and nothing reads it.
 */
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { bytes, counted } from '../platform/quantities.ts'
import { type Bucket, BucketError } from './bucket.ts'
import type { BucketCounters } from './bucket-counters.ts'

export interface Finding {
  property: string
  /** `warn`: it works, and costs more. */
  result: 'ok' | 'warn' | 'fail'
  detail: string
}

export interface ConformanceOptions {
  bucket: Bucket
  counters: BucketCounters
  /** Called when a property was checked. */
  onFinding(finding: Finding): void
}

/** Clients that create one name at the same time, and how often they do. */
const rivals = 16
const races = 5
const listedObjects = 5
/** More than two parts of an upload. */
const largeBytes = 20 * 1024 * 1024
const smallBytes = 64 * 1024

type Outcome = Omit<Finding, 'property'>

const ok = (detail: string): Outcome => ({ result: 'ok', detail })
const warn = (detail: string): Outcome => ({ result: 'warn', detail })
const fail = (detail: string): Outcome => ({ result: 'fail', detail })

/** A store that cannot do a step fails it. Throws BucketError if the first request fails: the store cannot be used at all. */
export async function checkConformance(options: ConformanceOptions): Promise<Finding[]> {
  const check = new Conformance(options)
  const findings: Finding[] = []
  const steps: [string, () => Promise<Outcome>][] = [
    ['conditional creation', () => check.conditionalCreation()],
    ['concurrent creations', () => check.concurrentCreations()],
    ['read after write', () => check.readAfterWrite()],
    ['listing after write', () => check.listingAfterWrite()],
    ['removal', () => check.removal()],
    ['upload in parts', () => check.upload()],
    ['interrupted upload', () => check.interruptedUpload()],
    ['read from an offset', () => check.rangeRead()],
  ]
  await check.reach()
  try {
    for (const [property, step] of steps) {
      const finding = { property, ...(await outcomeOf(step)) }
      findings.push(finding)
      options.onFinding(finding)
    }
  } finally {
    await check.clean()
  }
  return findings
}

async function outcomeOf(step: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await step()
  } catch (error) {
    if (error instanceof BucketError) return fail(error.message)
    throw error
  }
}

class Conformance {
  readonly #bucket: Bucket
  readonly #counters: BucketCounters
  readonly #root = `probe/${randomUUID()}`
  readonly #names = new Set<string>()
  /** The object of the upload; null: it failed. */
  #large: { name: string; body: Buffer } | null = null

  constructor({ bucket, counters }: ConformanceOptions) {
    this.#bucket = bucket
    this.#counters = counters
  }

  async reach(): Promise<void> {
    await this.#bucket.get(`${this.#root}/none`, smallBytes)
  }

  async conditionalCreation(): Promise<Outcome> {
    const name = this.#name('conditional')
    if ((await this.#bucket.create(name, Buffer.from('first'))) !== 'created')
      return fail('a new name is reported as existing')
    if ((await this.#bucket.create(name, Buffer.from('second'))) !== 'exists')
      return fail('a second creation of a name replaces the object: nothing would keep a second writer out')
    const stored = await this.#bucket.get(name, smallBytes)
    return stored?.toString() === 'first'
      ? ok('If-None-Match: * is honored')
      : fail('the first object was changed')
  }

  async concurrentCreations(): Promise<Outcome> {
    for (let race = 1; race <= races; race += 1) {
      const name = this.#name(`race-${race}`)
      const bodies = Array.from({ length: rivals }, (_, n) => Buffer.from(`rival ${n}`))
      const results = await Promise.all(bodies.map((body) => this.#bucket.create(name, body)))
      const winners = results.flatMap((result, n) => (result === 'created' ? [n] : []))
      if (winners.length !== 1)
        return fail(`${counted(winners.length, 'creation')} of ${rivals} at once succeeded instead of one`)
      const stored = await this.#bucket.get(name, smallBytes)
      if (!stored?.equals(bodies[winners[0]!]!)) return fail('the stored object is not that of the winner')
    }
    return ok(`one of ${rivals} at once succeeds, in ${counted(races, 'race')}`)
  }

  async readAfterWrite(): Promise<Outcome> {
    const name = this.#name('read')
    const body = randomBytes(smallBytes)
    await this.#bucket.create(name, body)
    const stored = await this.#bucket.get(name, smallBytes)
    return stored?.equals(body)
      ? ok('an object is read right after its creation')
      : fail('an object is not read back as it was created')
  }

  async listingAfterWrite(): Promise<Outcome> {
    const prefix = `${this.#root}/listing-`
    const wanted: string[] = []
    for (let n = listedObjects; n >= 1; n -= 1) {
      wanted.unshift(this.#name(`listing-${n}`))
      await this.#bucket.create(wanted[0]!, Buffer.from('listed'))
      const listed = await this.#list(prefix)
      if (listed.join() !== wanted.join())
        return fail('a listing lacks objects that were just created, or is not in order')
    }
    const [first, ...others] = wanted as [string, ...string[]]
    const after = await this.#list(prefix, first)
    if (after.join() !== others.join()) return fail('a listing does not continue after a name')
    return ok('an object is listed right after its creation, in order')
  }

  async removal(): Promise<Outcome> {
    const name = this.#name('removed')
    await this.#bucket.create(name, Buffer.from('removed'))
    await this.#bucket.remove(name)
    if ((await this.#bucket.get(name, smallBytes)) !== null) return fail('a removed object is still read')
    if ((await this.#list(name)).length > 0) return fail('a removed object is still listed')
    await this.#bucket.remove(name)
    if ((await this.#bucket.create(name, Buffer.from('again'))) !== 'created')
      return fail('the name of a removed object cannot be created again')
    return ok('a removed object is gone at once; a repeated removal succeeds')
  }

  async upload(): Promise<Outcome> {
    const name = this.#name('large')
    const body = randomBytes(largeBytes)
    let isVisible = false
    const bucket = this.#bucket
    const list = () => this.#list(name)
    async function* chunks(): AsyncGenerator<Buffer> {
      for (let at = 0; at < body.length; at += chunkBytes) {
        yield body.subarray(at, at + chunkBytes)
        // Every part but the last is sent by then.
        if (at + 2 * chunkBytes >= body.length)
          isVisible ||= (await bucket.get(name, largeBytes)) !== null || (await list()).length > 0
      }
    }
    await bucket.upload(name, chunks())
    if (isVisible) return fail('an object is visible before its upload is complete')
    const stored = await this.#bucket.get(name, largeBytes)
    if (stored === null || digest(stored) !== digest(body))
      return fail(`an object of ${bytes(body.length)} is not read back as it was uploaded`)
    this.#large = { name, body }
    return ok(`${bytes(body.length)} are read back, and were invisible until the upload was complete`)
  }

  async interruptedUpload(): Promise<Outcome> {
    const name = this.#name('interrupted')
    async function* chunks(): AsyncGenerator<Buffer> {
      for (let at = 0; at < largeBytes / 2; at += chunkBytes) yield Buffer.alloc(chunkBytes)
      throw new Interruption()
    }
    await this.#bucket.upload(name, chunks()).catch((error: unknown) => {
      if (!(error instanceof Interruption)) throw error
    })
    const isThere = (await this.#bucket.get(name, largeBytes)) !== null || (await this.#list(name)).length > 0
    return isThere ? fail('an upload that was interrupted is visible') : ok('it leaves no object')
  }

  async rangeRead(): Promise<Outcome> {
    if (this.#large === null) return fail('not checked: the upload failed')
    const { name, body } = this.#large
    const from = largeBytes - smallBytes
    const before = this.#counters.receivedBytes
    const parts: Buffer[] = []
    for await (const part of (await this.#bucket.stream(name, from)) ?? []) parts.push(part)
    if (!Buffer.concat(parts).equals(body.subarray(from)))
      return fail('a part of an object is not read as it was uploaded')
    return this.#counters.receivedBytes - before > largeBytes / 2
      ? warn('ranges are ignored: a restore that was interrupted downloads an object again')
      : ok('Range is honored')
  }

  async clean(): Promise<void> {
    for (const name of this.#names) await this.#bucket.remove(name).catch(() => {})
  }

  #name(name: string): string {
    this.#names.add(`${this.#root}/${name}`)
    return `${this.#root}/${name}`
  }

  async #list(prefix: string, after?: string): Promise<string[]> {
    const names: string[] = []
    for await (const { name } of this.#bucket.list(prefix, after)) names.push(name)
    return names
  }
}

class Interruption extends Error {}

const chunkBytes = 1024 * 1024

function digest(body: Buffer): string {
  return createHash('sha256').update(body).digest('hex')
}
