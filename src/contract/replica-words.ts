/** The state of a replica, and when it is too far behind. Free of schemas. */

export const replicaStates = ['joining', 'ok', 'failing'] as const

/** The alert `replica.lagging` is sent above this, like the rule of Prometheus in `monitoring/alerts.yml`. */
export const lagAlertSeconds = 5 * 60
/** The alert has ended below this, so that a lag near the bound is reported once. */
export const lagOverSeconds = 60
