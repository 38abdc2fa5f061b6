-- Identical requests at one instant, for an algorithm that can decide them by the sum of their costs:
-- tries all of them together, then half as many, and so on. If one does not fit alone, none after it
-- does.
local function take_many(it, rule, at, a, b, c, left)
  local cost, rest, changed = rule[6], rule[7], false
  local size = max(1, min(left, floor(LARGEST / 4 / max(1, cost, rest))))
  while left > 0 do
    local fits, x, y, z = it.take(rule, at, a, b, c, cost * size, rest * size)
    if fits then
      left = left - size
    elseif size == 1 then
      fits, x, y, z = it.deny(rule, at, a, b, c, cost, rest)
      left = 0
    end
    if fits then
      a, b, c, changed = x, y, z, true
      size = min(size, left)
    else
      size = floor(size / 2)
    end
  end
  return a, b, c, changed
end

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
  local left, stale, changed = times and times[key] or 1, false, false
  if it.sums then
    a, b, c, changed = take_many(it, rule, at, a, b, c, takes and left or 0)
    left = 0
  end
  for _ = 1, left do
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
