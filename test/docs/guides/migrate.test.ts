/** docs/migrate.md: into a cluster; and from another cluster to a new machine. */
import t from 'tap'
import { initDataDir, startDaemon, TestDaemon } from '../../support/daemon.ts'
import { walk } from '../../support/guide-walker.ts'
import { startMoveTargets } from '../../support/moving.ts'

async function startCluster() {
  const targets = await startMoveTargets()
  return { env: targets.env, stop: () => targets.stop() }
}

/** Its daemon was stopped with three records that wait. */
async function stoppedDataDir() {
  const daemon = await startDaemon()
  const orders = await daemon.createPipe({ pipe_name: 'orders' })
  await daemon.createDestination(orders, { destination_type: 'destination_pull', destination_config: {} })
  for (const id of [1, 2, 3]) await daemon.ingest(orders, { id })
  await daemon.stop()
  return { env: { PIPECTL_DATA_DIR: daemon.dataDir }, stop: () => daemon.close() }
}

async function clusterAndNewMachine() {
  const cluster = await startCluster()
  const dataDir = t.testdir()
  const { api_key: apiKey } = await initDataDir(dataDir, cluster.env)
  const node = await new TestDaemon({ dataDir, env: cluster.env }).start()
  node.apiKey = apiKey
  const orders = await node.createPipe({ pipe_name: 'orders' })
  await node.createDestination(orders, { destination_type: 'destination_pull', destination_config: {} })
  const machine = await startDaemon()
  return {
    env: {
      CLUSTER_URL: node.url,
      CLUSTER_KEY: node.apiKey,
      PIPECTL_URL: machine.url,
      PIPECTL_API_KEY: machine.apiKey,
    },
    async stop() {
      await machine.close()
      await node.close()
      await cluster.stop()
    },
  }
}

await walk('migrate', {
  'cluster-servers': startCluster,
  'stopped-data-dir': stoppedDataDir,
  'cluster-and-new-machine': clusterAndNewMachine,
})
