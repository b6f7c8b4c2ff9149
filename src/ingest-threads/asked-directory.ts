/** The directory's source in an ingest thread: main is asked, which asks metadata. */
import type { DirectorySource } from '../directory/directory.ts'
import type { DirectoryQuestion } from './protocol.ts'

interface Asked {
  resolve(value: unknown): void
  reject(error: Error): void
}

export class AskedDirectorySource implements DirectorySource {
  readonly #ask: (id: number, question: DirectoryQuestion) => void
  readonly #open = new Map<number, Asked>()
  #lastId = 0

  constructor(ask: (id: number, question: DirectoryQuestion) => void) {
    this.#ask = ask
  }

  allPipes = () => this.#question<'allPipes'>('allPipes')
  allKeys = () => this.#question<'allKeys'>('allKeys')
  pipe = (pipeId: string) => this.#question<'pipe'>('pipe', pipeId)
  key = (hash: string) => this.#question<'key'>('key', hash)
  keyById = (apiKeyId: string) => this.#question<'keyById'>('keyById', apiKeyId)

  answered(id: number, value: unknown): void {
    this.#take(id)?.resolve(value)
  }

  failed(id: number, message: string): void {
    this.#take(id)?.reject(new Error(message))
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
    const id = ++this.#lastId
    const answer = new Promise<unknown>((resolve, reject) => this.#open.set(id, { resolve, reject }))
    this.#ask(id, { method, id: about })
    return answer as ReturnType<DirectorySource[Method]>
  }
}
