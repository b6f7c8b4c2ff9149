/** `destinations test --sample` on real databases. */
import t from 'tap'
import { cliEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { startDaemon } from '../../support/daemon.ts'
import { startMariadb } from '../../support/mariadb.ts'
import { startPostgres } from '../../support/postgres.ts'

const [daemon, pg, maria] = await Promise.all([startDaemon(), startPostgres(), startMariadb()])
const home = makeHome()
t.teardown(async () => {
  await Promise.all([daemon.close(), pg.stop(), maria.stop()])
  removeHome(home)
})

const servers = [
  { name: 'PostgreSQL', scheme: 'postgres', server: pg, query: (sql: string) => pg.query(sql) },
  { name: 'MariaDB', scheme: 'mariadb', server: maria, query: (sql: string) => maria.query(sql) },
]
for (const { name, scheme, server, query } of servers) {
  t.test(
    `${name}: --sample inserts a record and takes it back, of a new destination and of a stored one`,
    async (t) => {
      const env = { ...cliEnv(daemon, home), PIPECTL_DESTINATION_PASSWORD: server.password }
      const pipe = scheme
      await query('CREATE TABLE sampled (id varchar(4) PRIMARY KEY, n int NOT NULL, CHECK (n < 9))')
      const pipeId = await daemon.createPipe({ pipe_name: pipe })
      const url = `${scheme}://${server.user}@${server.host}:${server.port}/${server.database}?table=sampled`
      const columns = ['--column', 'id:string:dedupe_id', '--column', 'n:number']
      const test = (...args: string[]) => runCli(['destinations', 'test', '-o', 'json', ...args], { env })
      const checks = ({ stdout }: { stdout: string }): { name: string; ok: boolean }[] =>
        JSON.parse(stdout).checks

      const fresh = await test(pipe, '--url', url, ...columns, '--sample')
      t.equal(fresh.code, 0, fresh.stderr)
      t.match(checks(fresh).at(-1), { name: 'sample', ok: true })
      t.match(
        JSON.parse(fresh.stdout).table_columns,
        [{ column_name: 'id' }, { column_name: 'n', is_nullable: false }],
        'the JSON has the columns of the table',
      )

      const created = await runCli(['destinations', 'create', pipe, '--url', url, ...columns], { env })
      t.equal(created.code, 0, created.stderr)
      const stored = await test(`${pipe}/database`, '--sample', '-o', 'table')
      t.match(stored, { code: 0, stdout: /sample +.*ok/ })
      await runCli(['destinations', 'block', pipe], { env })
      await daemon.ingest(pipeId, { id: 'a', n: 9 })
      const clashing = await test(pipe, '--sample')
      t.match(
        clashing,
        { code: 1, stderr: /would not work: sample failed: .*newest record/ },
        'the newest record',
      )
      t.notOk(
        checks(await test(pipe)).some((check) => check.name === 'sample'),
        'only when asked for',
      )
      t.same(await query('SELECT * FROM sampled'), [], 'nothing is stored')
    },
  )
}
