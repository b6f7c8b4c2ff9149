/** The settings of a daemon whose replica is in a bucket server of the tests. */
import type { BucketServer } from './bucket-server.ts'

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
