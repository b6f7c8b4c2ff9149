/** The settings of a daemon whose replica is in a bucket server of the tests. */
import type { BucketServer } from './bucket-server.ts'
import type { TestDaemon } from './daemon.ts'
import { until } from './until.ts'

export function replicaEnv(server: BucketServer, extra: Record<string, string> = {}): Record<string, string> {
  const { bucket, region, accessKey, secretKey } = server.account
  return {
    PIPECTL_REPLICA_URL: `s3://${bucket}/pipectl`,
    PIPECTL_REPLICA_ENDPOINT: server.endpoint,
    PIPECTL_REPLICA_REGION: region,
    PIPECTL_REPLICA_ACCESS_KEY: accessKey,
    PIPECTL_REPLICA_SECRET_KEY: secretKey,
    PIPECTL_REPLICA_FORCE_PATH_STYLE: 'true',
    PIPECTL_REPLICA_INTERVAL: '200ms',
    ...extra,
  }
}

/** Resolves when everything that was acknowledged before the call is in the bucket. */
export async function replicated({ metricsUrl }: TestDaemon, { everyMs = 20 } = {}): Promise<void> {
  const calledMs = Date.now()
  const isStored = async () => {
    const text = await (await fetch(metricsUrl)).text()
    const [, lag = 'NaN'] = /^pipectl_replica_lag_seconds (\S+)$/m.exec(text) ?? []
    return Date.now() - Number(lag) * 1000 > calledMs + 10
  }
  await until('everything is in the bucket', isStored, { everyMs })
}
