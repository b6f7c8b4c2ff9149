/** The thread that encodes Parquet objects: `parquet-threads.ts` starts and terminates it. */
import { ThreadHost } from '../../platform/thread-calls.ts'
import { DeliveryError } from '../driver.ts'
import { encodeParquet } from './parquet.ts'
import type { ParquetCalls, ParquetSource } from './parquet-threads.ts'

const host = new ThreadHost<undefined, ParquetCalls, ParquetSource>({ errors: { DeliveryError } })
host.serve({
  encode: (id, schema, parks) =>
    encodeParquet(schema, {
      next: () => host.call('next', [id]),
      park: parks ? (rejected) => host.call('park', [id, rejected]) : null,
      rowGroup: (bytes) => host.tell('rowGroup', [id, bytes], [bytes.buffer]),
    }),
})
