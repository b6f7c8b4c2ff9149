/** The questions of an ingest thread to main: the directory's source, which asks metadata, and parts of limits. */
import type { AskedQuota } from '../../ingest/cluster-quota.ts'
import type { IngestLimits } from '../../ingest/quota.ts'
import type { DaySums } from '../../ingest/shared-counters.ts'
import type { DirectorySource } from '../../metadata/directory-source.ts'
import { receivedError, type SentError } from '../../platform/thread-error.ts'
import type { Question } from './protocol.ts'

interface Asked {
  resolve(value: unknown): void
  reject(error: Error): void
}

export class AskedDirectorySource implements DirectorySource {
  readonly #ask: (id: number, question: Question) => void
  readonly #open = new Map<number, Asked>()
  #lastId = 0

  constructor(ask: (id: number, question: Question) => void) {
    this.#ask = ask
  }

  allPipes = () => this.#question<'allPipes'>('allPipes')
  allKeys = () => this.#question<'allKeys'>('allKeys')
  pipe = (pipeId: string) => this.#question<'pipe'>('pipe', pipeId)
  key = (hash: string) => this.#question<'key'>('key', hash)
  keyById = (apiKeyId: string) => this.#question<'keyById'>('keyById', apiKeyId)

  quota(pipeId: string, limits: IngestLimits, amount: DaySums): Promise<AskedQuota> {
    return this.#asked({ method: 'quota', pipeId, limits, amount }) as Promise<AskedQuota>
  }

  answered(id: number, value: unknown): void {
    this.#take(id)?.resolve(value)
  }

  failed(id: number, error: SentError): void {
    this.#take(id)?.reject(receivedError(error))
  }

  #take(id: number): Asked | undefined {
    const asked = this.#open.get(id)
    this.#open.delete(id)
    return asked
  }

  #question<Method extends keyof DirectorySource>(
    method: Method,
    about = '',
  ): ReturnType<DirectorySource[Method]> {
    return this.#asked({ method, id: about }) as ReturnType<DirectorySource[Method]>
  }

  #asked(question: Question): Promise<unknown> {
    const id = ++this.#lastId
    const answer = new Promise<unknown>((resolve, reject) => this.#open.set(id, { resolve, reject }))
    this.#ask(id, question)
    return answer
  }
}
