/** Random operations of the real stores, on all kinds of rows that one machine has. A seed repeats them. */
import { randomUUID } from 'node:crypto'
import { fullRights } from '../../../src/contract/api-key.ts'
import { ApiError } from '../../../src/contract/errors.ts'
import { mintApiKey } from '../../../src/metadata/key-tokens.ts'
import { newLaneState } from '../../../src/metadata/lane-state.ts'
import type { Metadata } from '../../../src/metadata/store.ts'
import type { Random } from '../../support/faults/random.ts'
import { databaseDestination, limits, newPipe, ownerOf } from './fixture.ts'
import { parkedOf, writesOf } from './owner-writes.ts'

interface Lane {
  workspaceId: string
  pipeId: string
  destinationId: string
  cursorSeq: number
}

/** Unlike texts, some with characters that SQL and JSON treat in their own way. */
const texts = ['plain', "it's", 'nul\0byte', 'ü🙂\u{10ffff}', '"quoted" \\ %_']

export class MetadataOperations {
  readonly #metadata: Metadata
  readonly #random: Random
  #names = 0
  #workspaces: string[] = []
  #pipes: { workspaceId: string; pipeId: string }[] = []
  #lanes: Lane[] = []

  constructor(metadata: Metadata, random: Random) {
    this.#metadata = metadata
    this.#random = random
  }

  /** Runs one operation. Rejections with an error of the contract (a taken name, a limit) are part of it. */
  async step(): Promise<void> {
    const all = [
      this.#structure,
      this.#lane,
      this.#lane,
      this.#parkedAtPipe,
      this.#usage,
      this.#people,
      this.#rest,
    ]
    if (this.#workspaces.length === 0) await this.#newWorkspace()
    if (this.#lanes.length === 0) await this.#newLane()
    try {
      await this.#random.pick(all).call(this)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
    }
  }

  #text(): string {
    return `${this.#random.pick(texts)} ${this.#random.below(1_000)}`
  }

  #name(): string {
    return `n${++this.#names}-${this.#random.below(1e9)}`
  }

  async #newWorkspace(): Promise<void> {
    const { workspaceId } = await this.#metadata.workspaces.create(this.#name(), mintApiKey('first').key)
    this.#workspaces.push(workspaceId)
  }

  async #newLane(): Promise<void> {
    const workspaceId = this.#random.pick(this.#workspaces)
    const { pipe_id: pipeId } = await newPipe(this.#metadata, workspaceId, this.#name(), {
      pipe_description: this.#text(),
    })
    const columns = [
      {
        ...{ column_name: 'id', column_type: 'string' as const, source_field: null, semantic_role: null },
        nullable: true,
      },
    ]
    const { destination_id: destinationId } = await this.#metadata.destinations.create(
      { workspaceId, pipeId },
      databaseDestination({ columns }),
    )
    this.#pipes.push({ workspaceId, pipeId })
    this.#lanes.push({ workspaceId, pipeId, destinationId, cursorSeq: 0 })
  }

  /** Deleting a pipe deletes rows of a dozen tables, by their foreign keys. */
  async #structure(): Promise<void> {
    const { pipes, destinations } = this.#metadata
    const lane = this.#random.pick(this.#lanes)
    const kind = this.#random.below(7)
    if (kind === 0 && this.#workspaces.length < 5) await this.#newWorkspace()
    if (kind <= 2) await this.#newLane()
    if (kind === 3) await pipes.update(lane, { pipe_description: this.#text() })
    if (kind === 4) {
      const schema = { type: 'object', required: [this.#name()] }
      await pipes.update(lane, { pipe_schema: schema, pipe_schema_on_mismatch: 'reject' })
    }
    if (kind === 5)
      await destinations.update(lane, { destination_name: this.#name(), destination_status: 'blocked' })
    if (kind === 6) {
      await (this.#random.below(2) === 0 ? pipes.delete(lane) : destinations.delete(lane))
      this.#lanes = this.#lanes.filter((one) => one !== lane)
    }
  }

  async #lane(): Promise<void> {
    const lane = this.#random.pick(this.#lanes)
    const { workspaceId, pipeId, destinationId } = lane
    lane.cursorSeq += 1 + this.#random.below(5)
    const { laneStore, parkedStore, parked } = this.#metadata
    const owner = ownerOf(destinationId)
    const seq = lane.cursorSeq
    await this.#save(lane)
    const kind = this.#random.below(8)
    if (kind <= 1) await parkedStore.park(owner, [parkedOf(seq, 1 + this.#random.below(3))])
    if (kind === 2) await laneStore.pruneHistory(owner, Math.max(0, seq - 20))
    if (kind === 3) await parked.discardMany(lane, { ids: null, errorCode: null, reason: null })
    if (kind === 4) await parked.replayMany(lane, { ids: null, errorCode: null, reason: null })
    if (kind === 5) {
      const row = await parkedStore.nextReplay(destinationId, seq)
      const writes = writesOf(this.#metadata, { destinationId, epoch: 1 }, pipeId)
      const names = ['planColumns', 'saveDrift', 'numberRange'] as const
      if (row === null) return void (await writes[this.#random.pick(names)](''))
      await parkedStore.beginReplay(owner, row.parkedId)
      const ends = ['saveReplayed', 'replayFailed', 'replayHalfStored'] as const
      await writes[this.#random.pick(ends)](row.parkedId)
    }
    if (kind === 6) {
      const range = {
        ...{ from: 'earliest', to: 'now', messages: 2, records: 2, bytes: 9, first_seq: 1, last_seq: 2 },
        ...{ after: { seq: 0, mark: '{"messages":0,"records":0,"bytes":0}' }, throughSeq: 2 },
      }
      const made = await this.#metadata.replays.create({ workspaceId, pipeId, destinationId }, range)
      if (made.kind === 'created' && this.#random.below(2) === 0)
        await this.#metadata.replays.cancel({ workspaceId, pipeId, destinationId }, made.replay.replay_id)
    }
    if (kind === 7) await this.#metadata.pinStore.pin(destinationId, 0, 'a'.repeat(64))
  }

  /** As the delivery thread saves a lane after an attempt. */
  async #save({ pipeId, destinationId, cursorSeq }: Lane): Promise<void> {
    const row = { ...newLaneState(destinationId, cursorSeq), ownerEpoch: 1, deliveredRecords: cursorSeq }
    const outcome = this.#random.below(3) === 0 ? ('failed' as const) : ('delivered' as const)
    const attempt = {
      ...{ attempt_no: cursorSeq, attempt_ts: new Date(cursorSeq).toISOString(), duration_ms: 1.5, outcome },
      ...{
        batch_id: randomUUID(),
        batch_attempt: 1,
        is_replay: false,
        first_seq: 1,
        last_seq: 2,
        records: 3,
      },
      ...{ bytes: 4, stored_records: 0, request: null, response: null, error: null },
    }
    const counts = {
      ...{
        destinationId,
        pipeId,
        deliveredRecords: 1,
        failedAttempts: 0,
        skippedRecords: 0,
        filteredRecords: 2,
      },
      attempts: [{ numberOfOutcome: cursorSeq, attempt }],
      passed: [
        {
          ...{ kind: 'delivered' as const, firstSeq: cursorSeq, lastSeq: cursorSeq, batchLastSeq: cursorSeq },
          ...{ atMs: cursorSeq, attempts: 1 },
        },
      ],
      latency: [{ hourMs: 0, counts: { records: [1, 7], delivered: [1, 7], failed: [] } }],
    }
    await this.#metadata.laneStore.save([row], [counts])
  }

  async #parkedAtPipe(): Promise<void> {
    const { pipeParked } = this.#metadata
    const { workspaceId, pipeId } = this.#random.pick(this.#lanes)
    const msgId = randomUUID()
    const parkedId = randomUUID()
    const faults = [{ path: '/n', message: this.#text() }]
    const records = [{ parkedId, recordIndex: 0, text: JSON.stringify({ text: this.#text() }), faults }]
    const request = { workspaceId, pipeId, msgId, receivedMs: 5, isKeyed: true, records }
    await pipeParked.park([{ ...request, enrichment: { keys: [], text: '' } }], 1024 ** 3)
    const kind = this.#random.below(5)
    if (kind === 0) await pipeParked.edit({ workspaceId, pipeId }, parkedId, { text: '{"n":1}', faults: [] })
    if (kind === 1) await pipeParked.discard({ workspaceId, pipeId }, parkedId)
    if (kind === 2) await pipeParked.discardMany({ workspaceId, pipeId }, { ids: null, errorPath: null })
    if (kind === 3) await pipeParked.prune(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)
  }

  async #usage(): Promise<void> {
    const { usage } = this.#metadata
    // Also pipes that are deleted.
    const { pipeId } = this.#random.pick(this.#pipes)
    const hourMs = 3_600_000 * this.#random.below(50)
    const count = {
      ...{
        pipeId,
        hourMs,
        requests: 1,
        records: this.#random.below(9),
        bytes: 2 ** 50,
        rejected: 0,
        lastIngestMs: 5,
      },
      ...{ rejectedHooks: { wrong_signature: 1 }, mismatches: { parked: 1 } },
    }
    const mark = { pipeId, messages: this.#random.below(99), records: 1, bytes: 3 }
    const kind = this.#random.below(6)
    if (kind <= 3) await usage.addIngest([count], [mark]).catch(ignoreDeletedPipe)
    if (kind === 4) await usage.countUpTo([mark], hourMs)
    if (kind === 5) await usage.prune(hourMs)
  }

  async #people(): Promise<void> {
    const { users, sessions, apiKeys } = this.#metadata
    const workspaceId = this.#random.pick(this.#workspaces)
    const list = await users.list(workspaceId)
    const kind = this.#random.below(7)
    const email = `${this.#name()}@example.com`
    if (kind <= 1) await users.create(workspaceId, { email, role: 'admin', passwordHash: this.#text() })
    if (kind === 2 && list.length > 0) {
      const [account] = await users.accountsOf(this.#random.pick(list).user_email)
      const hash = randomUUID()
      if (account !== undefined && (await sessions.begin(account, hash))) await sessions.used(hash)
      if (this.#random.below(2) === 0) await sessions.end(hash)
    }
    if (kind === 3 && list.length > 0)
      await users.update(
        { workspaceId, userId: this.#random.pick(list).user_id },
        { passwordHash: this.#text() },
      )
    if (kind === 4 && list.length > 0)
      await users.delete({ workspaceId, userId: this.#random.pick(list).user_id })
    if (kind === 5)
      await users.createSetupLink(workspaceId, {
        role: 'viewer',
        hash: randomUUID(),
        expiresMs: Date.now() + 1e6,
      })
    if (kind === 6) {
      const key = await apiKeys.create(workspaceId, mintApiKey(this.#name(), fullRights).key)
      await apiKeys.used([key.api_key_id], 60_000)
      if (this.#random.below(2) === 0) await apiKeys.revoke({ workspaceId, apiKeyId: key.api_key_id })
      if (this.#random.below(3) === 0) await apiKeys.prune(Number.MAX_SAFE_INTEGER)
    }
  }

  async #rest(): Promise<void> {
    const { alerts, alertStore, limits: pipeLimits, origins, privacy } = this.#metadata
    const lane = this.#random.pick(this.#lanes)
    const { workspaceId, destinationId } = lane
    const kind = this.#random.below(7)
    if (kind === 0) await pipeLimits.put(lane, limits)
    if (kind === 1) await pipeLimits.delete(lane)
    if (kind === 2) {
      const origin = await origins.add(lane, `https://${this.#name()}.example`)
      if (this.#random.below(2) === 0) await origins.remove(lane, origin.pipe_allowed_origin_id)
    }
    if (kind === 3)
      await alerts.put(workspaceId, () => ({
        ...{ url: 'https://alerts.example/', secret: this.#text(), format: 'standard', events: null },
      }))
    if (kind === 4) {
      const mark = {
        subject: destinationId,
        event: 'lane.stuck',
        sinceMs: 1,
        alertedMs: 2,
        heldBack: 0,
        counted: 0,
      } as const
      const alertId = randomUUID()
      await alertStore.record(workspaceId, {
        marks: [{ ...mark, state: 'raised' }],
        ...{ gone: [], alerts: [{ alertId, atMs: 1, json: '{}' }] },
      })
      if (this.#random.below(2) === 0)
        await alertStore.settle({ workspaceId, alertId }, { kind: 'sent', atMs: this.#random.below(99) })
    }
    if (kind === 5) await alerts.delete(workspaceId)
    if (kind === 6) {
      const keys = [{ path: 'email', value: this.#text() }]
      const made = await privacy.create(workspaceId, { kind: 'delete', keys, pipeIds: null, throughSeq: 7 })
      if (made.kind === 'created') await privacy.cancel(workspaceId, made.job.job_id)
    }
  }
}

/** The pipe of some counts was deleted. */
function ignoreDeletedPipe(error: unknown): void {
  if (!String(error).includes('FOREIGN KEY')) throw error
}
