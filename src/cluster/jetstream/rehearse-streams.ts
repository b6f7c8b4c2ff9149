/**
 * Whether the streams of a cluster could be opened. Only a server knows how much room its disk and its accounts have left, and it says
 * so only to a request that creates a stream. Streams that do not exist are therefore created and removed again.
 *
 *   crash before the removal   an empty stream of this identity is left, which the opening that follows takes for its own
 *   stream of another owner    the opening is refused as always; only an empty stream with our description is ever removed
 */
import type { JetStreamManager } from '@nats-io/jetstream'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import { connectNats } from '../nats/connect.ts'
import {
  bufferConfig,
  findStream,
  openManager,
  openStreams,
  totalsConfig,
  type WantedConfig,
  withinStart,
} from './stream.ts'

/** Throws what `openStreams` throws. */
export async function rehearseStreams(spec: JetStreamSpec): Promise<void> {
  const connection = await connectNats(spec.nats)
  try {
    const manager = await openManager(connection, spec)
    const absent: WantedConfig[] = []
    for (const config of [totalsConfig(spec), bufferConfig(spec)])
      if ((await withinStart(spec, () => findStream(manager, config.name))) === null) absent.push(config)
    try {
      await openStreams(connection, spec)
    } finally {
      for (const config of absent) await removeEmpty(manager, config)
    }
  } finally {
    await connection.close()
  }
}

async function removeEmpty(manager: JetStreamManager, { name, description }: WantedConfig): Promise<void> {
  const found = await findStream(manager, name)
  if (found === null || found.state.messages > 0 || found.config.description !== description) return
  await manager.streams.delete(name)
}
