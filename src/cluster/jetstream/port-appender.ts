/** The appender of a thread other than main. It has its own connection and reports its appends to main. */
import { setTimeout as wait } from 'node:timers/promises'
import type {
  Appended,
  Appender,
  AppenderPort,
  Idempotency,
  NewMessage,
  SharedAppends,
} from '../../log/buffer.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import { WriterObserved } from '../../log/group-commit.ts'
import type { KeyQuestion, KeyStore } from '../../log/key-store.ts'
import { type Logger, openLog } from '../../platform/log.ts'
import { type Caller, callsOver } from '../../platform/thread-calls.ts'
import { connectNats } from '../nats/connect.ts'
import type { NatsConnection } from '../nats/headers.ts'
import { JetStreamAppender } from './appender.ts'
import type { AppendingThreadReports, AppendingThreadSpec } from './protocol.ts'
import { Shares } from './shares.ts'

const connectRetryMs = 1_000

/** Runs in the thread that received the port. Resolves when it is connected. */
export async function openJetStreamPortAppender(
  port: AppenderPort,
  { spec, log: logSettings, liveness, observed, lastStreamSeq, hasKeys }: AppendingThreadSpec,
): Promise<Appender> {
  const log = openLog(logSettings, 'buffer')
  const connection = await connect(spec, log)
  const shares = new Shares(connection, spec.cluster, spec.maxBytes)
  const main = callsOver<AppendingThreadReports, object>('main', port)
  // The sockets keep the thread alive; the port does not need to.
  port.unref()
  let appends: Omit<SharedAppends, 'appender'>[] = []
  const appender = new JetStreamAppender(connection, {
    cluster: spec.cluster,
    replicas: spec.replicas,
    log,
    liveness,
    observed: new WriterObserved(observed),
    shares,
    keys: hasKeys ? keysOf(main) : null,
    lastStreamSeq,
    onAppended(appended) {
      appends.push(appended)
      if (appends.length > 1) return
      queueMicrotask(() => {
        main.tell('appended', [appends])
        appends = []
      })
    },
    onRejected: () => main.tell('rejected', []),
    onFatal: (error) => main.tell('failed', [error.message]),
  })
  return new PortAppender(appender, async () => {
    appender.close()
    shares.close()
    await connection.drain()
  })
}

function keysOf(main: Caller<AppendingThreadReports>): Pick<KeyStore, KeyQuestion> {
  return {
    find: (...asked) => main.call('find', asked),
    claim: (...asked) => main.call('claim', asked),
    settle: (...asked) => main.call('settle', asked),
    release: (...asked) => main.call('release', asked),
    pendingFor: (...asked) => main.call('pendingFor', asked),
  }
}

class PortAppender implements Appender {
  readonly #appender: JetStreamAppender
  readonly #close: () => Promise<void>
  #drained: Promise<void> | null = null

  constructor(appender: JetStreamAppender, close: () => Promise<void>) {
    this.#appender = appender
    this.#close = close
  }

  append(message: NewMessage): Promise<Appended> {
    return this.#appender.append(message)
  }

  findRepeat(pipeId: string, idempotency: Idempotency): Promise<Appended | 'reused' | null> {
    return this.#appender.findRepeat(pipeId, idempotency)
  }

  /** The connection has no other user. */
  drain(): Promise<void> {
    this.#drained ??= this.#appender.drain().then(() => this.#close().catch(() => {}))
    return this.#drained
  }
}

/** Main has connected with the same spec before, so a failure here is temporary. */
async function connect({ nats }: JetStreamSpec, log: Logger): Promise<NatsConnection> {
  for (;;) {
    try {
      return await connectNats(nats)
    } catch (error) {
      log.warn({ err: error }, 'buffer.connect_failed')
      await wait(connectRetryMs)
    }
  }
}
