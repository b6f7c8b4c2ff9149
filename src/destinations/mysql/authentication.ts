/**
 * Authentication methods for TLS connections whose certificate is not verified. The client can prove that it knows the password
 * but must not send it: an attacker on the path could read it.
 *
 *   mysql_native_password, caching_sha2_password from the server's cache    a proof: allowed
 *   caching_sha2_password in full, sha256_password, mysql_clear_password    the password itself: rejected
 */
import { type AuthPlugin, authPlugins } from 'mysql2'
import { DeliveryError } from '../driver.ts'

const performFullAuthentication = 4

const cachingSha2: AuthPlugin = (metadata) => {
  const prove = authPlugins.caching_sha2_password()(metadata)
  return (data) => {
    if (data.length === 1 && data[0] === performFullAuthentication)
      throw unsafeAuthentication('caching_sha2_password, without this user in its cache')
    return prove(data)
  }
}

const refused =
  (name: string): AuthPlugin =>
  () =>
  () => {
    throw unsafeAuthentication(name)
  }

/** For mysql2's `authPlugins`. */
export const provingPlugins: Record<string, AuthPlugin> = {
  caching_sha2_password: cachingSha2,
  sha256_password: refused('sha256_password'),
  mysql_clear_password: refused('mysql_clear_password'),
}

function unsafeAuthentication(method: string): DeliveryError {
  return new DeliveryError(
    'permanent',
    'unsafe_authentication',
    `The database server asks for the password itself (${method}), which pipectl does not send over TLS with an unverified certificate: log in once as this user by other means, which fills the cache of caching_sha2_password, or give the user mysql_native_password. (The setting destination_db_cleartext_auth lifts this.)`,
  )
}
