/** The appender of a thread other than main. It has its own connection and reports its appends to main. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Appender, AppenderPort, SharedAppends } from '../../log/buffer.ts'
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
  const end = async () => {
    await appender.drain()
    appender.close()
    shares.close()
    // The connection has no other user.
    await connection.drain().catch(() => {})
  }
  let ended: Promise<void> | null = null
  return {
    append: (message) => appender.append(message),
    findRepeat: (pipeId, idempotency) => appender.findRepeat(pipeId, idempotency),
    drain: () => (ended ??= end()),
  }
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
