/**
 * Which node saved which lane under which epoch, as PostgreSQL itself saw it: every node has a user of its own there, and a
 * trigger notes each save with it.
 */
import type { TestPostgres } from '../../support/postgres.ts'

const watch = `
  CREATE TABLE seen_saves (
    destination_id text NOT NULL, epoch bigint NOT NULL, node text NOT NULL,
    PRIMARY KEY (destination_id, epoch, node)
  );
  CREATE FUNCTION note_save() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
  BEGIN
    INSERT INTO seen_saves VALUES (NEW.destination_id, NEW.owner_epoch, session_user)
    ON CONFLICT DO NOTHING;
    RETURN NULL;
  END $$;
  CREATE TRIGGER note_save AFTER UPDATE ON lanes FOR EACH ROW EXECUTE FUNCTION note_save()`

/** Every take-over keeps the epoch: two owners in one epoch are then no longer told apart. */
const withoutFence = `
  CREATE FUNCTION keep_epoch() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    NEW.epoch := OLD.epoch;
    RETURN NEW;
  END $$;
  CREATE TRIGGER keep_epoch BEFORE UPDATE ON pipe_owners FOR EACH ROW EXECUTE FUNCTION keep_epoch()`

/** A user for each node, who may do with the tables that are there what a node does. */
export async function createNodeUsers(postgres: TestPostgres, names: readonly string[]): Promise<void> {
  for (const name of names) {
    await postgres.query(`CREATE ROLE ${name} LOGIN PASSWORD '${postgres.password}'`)
    await postgres.query(`GRANT ALL ON SCHEMA public TO ${name}`)
    await postgres.query(`GRANT ALL ON ALL TABLES IN SCHEMA public TO ${name}`)
  }
}

export async function watchLaneSaves(postgres: TestPostgres): Promise<void> {
  await postgres.query(watch)
}

export async function switchFenceOff(postgres: TestPostgres): Promise<void> {
  await postgres.query(withoutFence)
}

/** Lanes that two nodes have saved in one epoch; and how many epochs were seen in all. */
export async function savedTwice(postgres: TestPostgres): Promise<{ lanes: string[]; epochs: number }> {
  const rows = await postgres.query(
    `SELECT destination_id, epoch, count(*)::int AS nodes, string_agg(node, ' and ') AS names
     FROM seen_saves WHERE epoch > 0 GROUP BY destination_id, epoch`,
  )
  const lanes = rows
    .filter(({ nodes }) => Number(nodes) > 1)
    .map(({ destination_id, epoch, names }) => `${destination_id} in epoch ${epoch}: ${names}`)
  return { lanes, epochs: rows.length }
}
