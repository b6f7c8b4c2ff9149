/** The keys of a cluster in a thread that has no connection to the database: main asks for it, together with what other threads ask. */
import type { AppenderPort } from '../../log/buffer.ts'
import type { KeyQuestion, KeyStore } from '../../log/key-store.ts'
import type { FromAppendingThread, ToAppendingThread } from './protocol.ts'

/** In main: answers what the thread asks. */
export async function answerKeys(
  keys: KeyStore,
  port: AppenderPort,
  { id, method, args }: Extract<FromAppendingThread, { kind: 'keys' }>,
): Promise<void> {
  const post = (answer: Extract<ToAppendingThread, { kind: 'keys' }>) => port.postMessage(answer)
  try {
    post({ kind: 'keys', id, value: await Reflect.apply(keys[method], keys, args) })
  } catch (error) {
    post({ kind: 'keys', id, error: error instanceof Error ? error.message : String(error) })
  }
}

/** In the thread. */
export function keysOverPort(port: AppenderPort): Pick<KeyStore, KeyQuestion> {
  const asked = new Map<number, { resolve(value: never): void; reject(error: Error): void }>()
  let questions = 0
  port.on('message', (answer: ToAppendingThread) => {
    if (answer.kind !== 'keys') return
    const question = asked.get(answer.id)
    asked.delete(answer.id)
    if (answer.error === undefined) question?.resolve(answer.value as never)
    else question?.reject(new Error(answer.error))
  })
  // Sockets keep the thread alive, not this.
  port.unref()
  const ask =
    (method: KeyQuestion) =>
    (...args: unknown[]) =>
      new Promise<never>((resolve, reject) => {
        questions += 1
        asked.set(questions, { resolve, reject })
        const question: FromAppendingThread = { kind: 'keys', id: questions, method, args }
        port.postMessage(question)
      })
  return {
    find: ask('find'),
    claim: ask('claim'),
    settle: ask('settle'),
    release: ask('release'),
    pendingFor: ask('pendingFor'),
  }
}
