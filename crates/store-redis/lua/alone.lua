-- A key of its own, and some identical requests for it.
local function settle_alone(key, rule)
  local it, cost, rest = algorithm(rule[1]), rule[6], rule[7]
  local at = now + (phases and phases[key] or 0)
  local value, takes = found[key], cost > 0 or rest > 0
  local a, b, c = read(it, rule, value)
  if not a then
    found[key] = DAMAGED
    return
  end
  local stale, changed = false, false
  for _ = 1, times and times[key] or 1 do
    if it.tell then
      local has_changed
      has_changed, a, b, c = it.tell(told, rule, at, a, b, c, cost)
      stale = stale or has_changed
    end
    local fits, x, y, z = it.take(rule, at, a, b, c, cost, rest)
    if takes and not fits then
      changed = changed or stale
      fits, x, y, z = it.deny(rule, at, a, b, c, cost, rest)
    end
    if takes and fits then a, b, c, changed = x, y, z, true end
  end
  if it.tell then found[key] = TOLD end
  if changed and not it.write(KEYS[key], rule, at, value, a, b, c) then found[key] = OCCUPIED end
end
