/**
 * One page of a pipe's messages. The history thread finds messages by time, id and content, metadata knows their state
 * in each lane. So a page is put together in rounds:
 *
 *   1 ranges of seqs in which messages with the wanted state can be      metadata
 *   2 the next messages in them that match everything else               history
 *   3 their state in each lane: those without the wanted one are left out
 *
 * The rounds end when the page is full, when there are no more messages, or when the request has taken its time.
 */
import { validationError } from '../../contract/errors.ts'
import { type MessageLane, messagePage } from '../../contract/message.ts'
import { conditionIn, type RecordCondition } from '../../contract/record-condition.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { SeqRange } from '../../metadata/lane-state.ts'
import type { PipeRef } from '../../metadata/tables.ts'
import type { MessageExcerpt, MessagePage, Searched } from '../../observe/history/history.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { MessageFilter } from './message-filter.ts'
import { laneOf } from './message-lanes.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'history'>

interface ListedInLanes {
  message: MessageExcerpt
  lanes: MessageLane[]
}

interface Part {
  page: MessagePage
  /** Messages before this one were not looked at. 1: there are none. */
  fromSeq: number
}

export class MessageListing {
  readonly #deps: Deps
  readonly #pipe: PipeRef
  readonly #query: Call<'listMessages'>['query']
  readonly #limit: number
  readonly #messages: ListedInLanes[] = []
  readonly #searched: Searched = { messages: 0, bytes: 0, lastMs: null }

  constructor(deps: Deps, pipe: PipeRef, query: Call<'listMessages'>['query']) {
    this.#deps = deps
    this.#pipe = pipe
    this.#query = query
    this.#limit = query.limit ?? messagePage.default
  }

  async run() {
    const where = conditionOf(this.#query.where)
    const filter = await this.#filter()
    const only = await this.#onlyRange()
    const endMs = performance.now() + resourceLimits.searchMs
    let next: number | null = this.#query.after ?? Number.MAX_SAFE_INTEGER
    do {
      const { page, fromSeq } = await this.#part(next, { where, filter, only })
      next = (await this.#take(page, filter)) ?? page.next ?? (fromSeq > 1 ? fromSeq : null)
      if (page.isBounded) break
    } while (next !== null && this.#messages.length < this.#limit && performance.now() < endMs)
    return { messages: this.#messages, next, searched: this.#searched }
  }

  async #part(
    beforeSeq: number,
    {
      where,
      filter,
      only,
    }: { where: RecordCondition | null; filter: MessageFilter | null; only: SeqRange | null },
  ): Promise<Part> {
    const { since, until } = this.#query
    const found = await filter?.candidates(beforeSeq)
    const page = await this.#deps.history.list(this.#pipe.pipeId, {
      beforeSeq,
      // Later rounds read a full page, because many messages can be left out.
      limit: this.#searched.messages === 0 ? this.#limit : messagePage.max,
      sinceMs: since === undefined ? null : Date.parse(since),
      untilMs: until === undefined ? null : Date.parse(until),
      ranges: within(found?.ranges ?? null, only),
      where,
    })
    const { fromSeq } = found ?? { fromSeq: 1 }
    const oldestSeq = Math.max(page.afterSeq + 1, only?.[0] ?? 1)
    return { page, fromSeq: fromSeq <= oldestSeq ? 1 : fromSeq }
  }

  /** Returns the last message that was taken when the page is full before the end of the part; else null. */
  async #take({ messages, searched }: MessagePage, filter: MessageFilter | null): Promise<number | null> {
    this.#searched.messages += searched.messages
    this.#searched.bytes += searched.bytes
    this.#searched.lastMs = searched.lastMs ?? this.#searched.lastMs
    if (messages.length === 0) return null
    const records = await this.#deps.metadata.laneRecords(
      this.#pipe,
      messages.map(({ seq }) => seq),
    )
    for (const message of messages) {
      if (this.#messages.length === this.#limit) return this.#messages.at(-1)!.message.seq
      const lanes = records.flatMap((record) => laneOf(record, message))
      if (filter === null || filter.passes(lanes)) this.#messages.push({ message, lanes })
    }
    return null
  }

  async #filter(): Promise<MessageFilter | null> {
    const { destination_id: destinationId = null, state = null } = this.#query
    if (destinationId === null && state === null) return null
    return await MessageFilter.open(this.#deps, this.#pipe, {
      destinationId: destinationId?.toLowerCase() ?? null,
      state,
    })
  }

  /** The place of the message with the wanted id. Null: no id was given. */
  async #onlyRange(): Promise<SeqRange | null> {
    const { msg_id: msgId } = this.#query
    if (msgId === undefined) return null
    const found = await this.#deps.history.find(msgId.toLowerCase())
    return found === null || found.pipeId !== this.#pipe.pipeId ? [1, 0] : [found.seq, found.seq]
  }
}

/** Throws `validation_error`. */
function conditionOf(where: string | undefined): RecordCondition | null {
  if (where === undefined) return null
  const condition = conditionIn(where)
  if (condition === null) throw validationError({ where: 'must be key=value' })
  return condition
}

/** The ranges within `only`. Null: everything. */
function within(ranges: readonly SeqRange[] | null, only: SeqRange | null): SeqRange[] | null {
  if (only === null) return ranges === null ? null : [...ranges]
  return (ranges ?? [only])
    .map(([first, last]): SeqRange => [Math.max(first, only[0]), Math.min(last, only[1])])
    .filter(([first, last]) => first <= last)
}
